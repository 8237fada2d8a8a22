//! The orchestrations of the chaos suite have ended with the right results, histories, bookings and
//! effects.

use async_trait::async_trait;
use cdb_chaos::check;

use crate::caller::{Caller, Seen};
use crate::judge::Judge;
use crate::network::Network;

/// The judge of the chaos suite.
pub(super) struct Results;

#[async_trait]
impl Judge for Results {
    fn name(&self) -> &'static str {
        "results"
    }

    async fn judge(&self, caller: &Caller, seen: &Seen) -> Result<Vec<String>, String> {
        let verdict = check(&caller.ledger, &caller.documents, &seen.ended).await?;
        let network = &caller.cluster.network;
        let problems = verdict.problems();
        Ok(problems
            .filter_map(|problem| without_late_writes(network, problem))
            .collect())
    }
}

/// Returns a problem of an instance without what a creation explains that arrived a second time,
/// after its document was deleted (docs/errors.md, "Not covered").
fn without_late_writes(network: &Network, problem: &str) -> Option<String> {
    let Some((instance, found)) = problem.split_once("`: ") else {
        return Some(problem.to_owned());
    };
    let id = instance.trim_start_matches('`');
    // The creation of an instance is a request of its own, those of chunks are in batches.
    let created = format!("{{\"id\":\"{id}:instance\"");
    let is_created = network.wrote_late(|body| body.starts_with(&created));
    let left = found.split("; ").filter(|problem| {
        let Some(part) = problem.strip_prefix("nothing refers to chunk ") else {
            return !is_created;
        };
        let part = format!("\"part\":\"{part}\"");
        !network.wrote_late(|body| body.contains(&part))
    });
    let left: Vec<&str> = left.collect();
    (!left.is_empty()).then(|| format!("{instance}`: {}", left.join("; ")))
}
