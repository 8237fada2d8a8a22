//! The limits that may keep new instances from beginning: `--running 0` of labels of instances.
//!
//! The store does not say which instances they select: only programs know the labels that they derive from
//! ids. A start that no runtime has fetched may wait for such a limit if a runtime is alive. Runtimes renew a
//! lease while the container has limits of what runs.

use cdb_client::ContainerClient;
use cdb_model::Query;
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{Durable, Rule, RuntimeLease};

use crate::exit::Failure;

/// The most leases that are read. The service deletes old ones.
const MAX_LEASES: u32 = 1_000;

/// Returns the limits that may keep new instances from beginning, as text. None if no runtime is alive: then
/// instances wait for a runtime.
pub(crate) async fn read(
    provider: &CosmosDBProvider,
    container: &ContainerClient<Durable>,
) -> Result<Vec<String>, Failure> {
    let Some(limits) = provider.limits().await? else {
        return Ok(Vec::new());
    };
    let pauses = limits
        .rules
        .iter()
        .filter(|rule| rule.keeps_from_beginning());
    let pauses: Vec<_> = pauses
        .map(|Rule { select, .. }| select.to_string())
        .collect();
    if pauses.is_empty() || !has_runtime(container).await? {
        return Ok(Vec::new());
    }
    Ok(pauses)
}

async fn has_runtime(container: &ContainerClient<Durable>) -> Result<bool, Failure> {
    let leases = Query::<RuntimeLease>::across_partitions().limit(MAX_LEASES);
    let leases = container.query(leases).all().await?;
    let now = container.now();
    let mut leases = leases.iter().map(|stored| &stored.document);
    Ok(leases.any(|lease| !lease.is_dead && lease.until > now))
}

/// Says that limits may keep instances from beginning: `` `tenant=acme` has --running 0, which … ``.
pub(crate) fn described(limits: &[String]) -> String {
    let have = if limits.len() == 1 { "has" } else { "have" };
    format!(
        "`{}` {have} --running 0, which keeps instances with the label from beginning (only the program knows the labels of an instance)",
        limits.join("`, `")
    )
}
