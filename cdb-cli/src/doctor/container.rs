//! The container: is it the one that the model describes, and is its index complete?

use cdb_client::{DatabaseClient, Difference};
use cdb_model::ContainerDefinition;

use super::finding::Finding;
use crate::exit::Failure;
use crate::model::Model;

pub(super) fn definition(model: &Model, live: &ContainerDefinition) -> Vec<Finding> {
    let differences = Difference::between(&model.definition, live);
    if differences.is_empty() {
        return vec![Finding::ok(
            "container",
            format!("as {} wants it", model.name),
        )];
    }
    let findings = differences.iter().map(|difference| {
        let says = difference.to_string();
        match difference {
            Difference::PartitionKey { .. } | Difference::UniqueKeys { .. } => {
                Finding::problem("container", says, "create another container and move the documents")
            }
            Difference::TimeToLive { .. } => Finding::warning(
                "container",
                says,
                "{cdb} policy apply --time-to-live; records that should expire stay for ever without it",
            ),
            Difference::Indexing(drift) if drift.breaks_queries() => {
                Finding::problem("policy", says, "{cdb} policy diff shows which queries suffer, {cdb} policy apply changes it online")
            }
            _ => Finding::warning("policy", says, "{cdb} policy apply"),
        }
    });
    findings.collect()
}

pub(super) async fn indexing(database: &DatabaseClient, name: &str) -> Result<Finding, Failure> {
    let finding = match database.indexing_progress(name).await? {
        Some(percent) if percent < 100 => Finding::warning(
            "indexing",
            format!("a change of the policy is at {percent} %; queries may miss its indexes"),
            "wait; it uses spare request units, so more of them make it faster",
        ),
        Some(_) => Finding::ok("indexing", "the index follows the policy"),
        None => Finding::ok("indexing", "the service does not tell"),
    };
    Ok(finding)
}
