//! Checks of the container's definition and index.

use cdb_client::DatabaseClient;
use cdb_client::database::Difference;
use cdb_model::container::ContainerDefinition;
use cdb_model::policy::PolicyDifference;

use super::finding::Finding;
use crate::exit::Failure;
use crate::model::unknown_indexes::{self, UnknownIndexes};
use crate::model::{Model, foreign_types};
use crate::output::counted;

/// The most document types of other programs that are named, with a query each.
const MAX_NAMED: usize = 3;

/// Compares the container with the model. Indexes that serve no query of the model are one note if the
/// command knows only the types of this project, or if the container holds other document types: the
/// model cannot tell whether they need the indexes.
pub(super) async fn definition(
    database: &DatabaseClient,
    name: &str,
    model: &Model,
    live: &ContainerDefinition,
) -> Result<Vec<Finding>, Failure> {
    let mut differences = Difference::between(&model.definition, live);
    let mut findings = Vec::new();
    let unknown = UnknownIndexes::split_off(model, &mut differences);
    if !unknown.is_empty() || differences.iter().any(is_superfluous) {
        let foreign = foreign_types::names(database, name, model, MAX_NAMED).await?;
        if !unknown.is_empty() {
            findings.push(of_unknown(&unknown, &foreign));
        } else if !foreign.is_empty() {
            let before = differences.len();
            differences.retain(|difference| !is_superfluous(difference));
            findings.push(of_others(model, before - differences.len(), &foreign));
        }
    }
    findings.extend(of_differences(model, &differences, findings.is_empty()));
    Ok(findings)
}

/// Whether the difference is an index that no query of the model needs.
fn is_superfluous(difference: &Difference) -> bool {
    let Difference::Indexing(difference) = difference else {
        return false;
    };
    matches!(
        difference,
        PolicyDifference::SuperfluousPath(_)
            | PolicyDifference::SuperfluousComposite(_)
            | PolicyDifference::MissingExclusion(_)
    )
}

fn of_unknown(unknown: &UnknownIndexes, foreign: &[String]) -> Finding {
    let mut says = format!("the policy has {unknown}");
    if !foreign.is_empty() {
        says += "; the container holds ";
        says += &quoted(foreign);
    }
    Finding::note("policy", says, unknown_indexes::REMEDY)
}

fn of_others(model: &Model, indexes: usize, foreign: &[String]) -> Finding {
    let says = format!(
        "{} needs {} less than the policy has, but the container holds {}, which it does not know: check the policy with the command of \
         the program that declares them",
        model.name,
        counted(indexes as u64, "indexed path"),
        quoted(foreign),
    );
    Finding::ok("policy", says)
}

fn of_differences(model: &Model, differences: &[Difference], alone: bool) -> Vec<Finding> {
    if differences.is_empty() {
        let says = format!("matches {}", model.name);
        return alone
            .then(|| Finding::ok("container", says))
            .into_iter()
            .collect();
    }
    let findings = differences.iter().map(|difference| {
        let says = difference.to_string();
        match difference {
            Difference::PartitionKey { .. } => Finding::problem(
                "container",
                says,
                "choose the right container with --container, or create a new one and copy the documents",
            ),
            Difference::UniqueKeys { .. } => {
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

/// Names the document types of other programs.
fn quoted(types: &[String]) -> String {
    let names: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
    format!("documents of the types {}", names.join(", "))
}
