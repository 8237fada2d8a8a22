//! Checks of the container's definition and index.

use cdb_client::{DatabaseClient, Difference};
use cdb_model::ContainerDefinition;

use super::finding::Finding;
use crate::exit::Failure;
use crate::model::Model;

pub(super) fn definition(model: &Model, live: &ContainerDefinition) -> Vec<Finding> {
    let differences = Difference::between(&model.definition, live);
    if differences.is_empty() {
        return vec![Finding::ok("container", format!("matches {}", model.name))];
    }
    let findings = differences.iter().map(|difference| {
        let says = difference.to_string();
        match difference {
            Difference::PartitionKey { .. } | Difference::UniqueKeys { .. } => {
                Finding::problem("container", says, "create a new container and copy the documents")
            }
            Difference::PartitionKeyVersion { .. } => Finding::warning(
                "container",
                says,
                "keep it if no partition key is longer than 101 bytes; otherwise create a new container",
            ),
            Difference::TimeToLive { .. } => Finding::warning(
                "container",
                says,
                "run {cdb} policy apply --time-to-live; without it, records that should expire are kept",
            ),
            Difference::Indexing(difference) if difference.breaks_queries() => {
                Finding::problem("policy", says, "run {cdb} policy diff to see the affected queries, and {cdb} policy apply to change the policy online")
            }
            _ => Finding::warning(
                "policy",
                says,
                "run {cdb} policy apply; it shows who may need an index before it removes one",
            ),
        }
    });
    findings.collect()
}

pub(super) async fn indexing(database: &DatabaseClient, name: &str) -> Result<Finding, Failure> {
    let finding = match database.indexing_progress(name).await? {
        Some(percent) if percent < 100 => Finding::warning(
            "indexing",
            format!("a policy change is at {percent} %; queries cannot use its indexes yet"),
            "wait; indexing uses spare request units, so more request units make it faster",
        ),
        Some(_) => Finding::ok("indexing", "the index is complete"),
        None => Finding::ok("indexing", "the service does not report the progress"),
    };
    Ok(finding)
}
