//! Nothing is left when everything has ended and was purged: no document of an instance, no task.

use std::time::Duration;

use async_trait::async_trait;
use cdb_chaos::keep_trying;
use cdb_model::{Query, Stored};
use cdb_provider::documents::{Durable, SCHEMA_PARTITION};
use cdb_tests::instance_id;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::caller::{Caller, Seen};
use crate::judge::Judge;

/// The time that ended work has to be purged, after its retention.
const PURGE: Duration = Duration::from_secs(3600);

/// Shorter runs end before anything is purged.
const SHORTEST: Duration = Duration::from_secs(3600);

/// Tasks of an idle node.
const TASKS_PER_NODE: usize = 100;

/// The judge of documents and tasks.
pub(super) struct Leftovers;

#[async_trait]
impl Judge for Leftovers {
    fn name(&self) -> &'static str {
        "leftovers"
    }

    async fn judge(&self, caller: &Caller, _: &Seen) -> Result<Vec<String>, String> {
        if caller.time < SHORTEST {
            return Ok(Vec::new());
        }
        let profile = caller.cluster.profile;
        sleep(profile.node.retention + PURGE).await;
        left(caller, profile.nodes).await
    }
}

async fn left(caller: &Caller, nodes: usize) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let own = caller.documents.view::<Durable>();
    let query = || own.query(Query::<Durable>::across_partitions());
    // Documents of other types belong to the workloads.
    let documents = keep_trying(|| query().row_by_row().all()).await?;
    let documents = documents.into_iter().filter_map(Result::ok);
    let orphans = documents.filter(is_orphan).map(|it| it.id.to_string());
    let orphans: Vec<String> = orphans.collect();
    if !orphans.is_empty() {
        let sample = &orphans[..orphans.len().min(20)];
        problems.push(format!(
            "{} documents are left, such as {sample:?}",
            orphans.len()
        ));
    }
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > TASKS_PER_NODE * (nodes + 1) {
        problems.push(format!("{tasks} tasks are left on {nodes} nodes"));
    }
    Ok(problems)
}

/// Returns whether a document belongs to an instance. A session may wait for the next cleanup.
fn is_orphan(stored: &Stored<Durable>) -> bool {
    let instance = instance_id(&stored.document);
    instance.is_some_and(|id| id != SCHEMA_PARTITION)
        && !matches!(stored.document, Durable::Session(_))
}
