//! The comparison of the model with a live container or a policy file.

use std::fmt;
use std::path::Path;

use cdb_client::DatabaseClient;
use cdb_client::database::Difference;
use cdb_model::policy::{IndexingPolicy, PolicyDifference};
use serde::Serialize;

use super::removal::Removal;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::model::unknown_indexes::UnknownIndexes;

/// The differences between the model and a live container or a policy file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    pub model: &'static str,
    /// The container or the file that the model was compared with.
    pub compared_with: String,
    pub differences: Vec<Item>,
    /// The indexes of paths that this command does not know. They are no difference.
    #[serde(
        rename = "unknownIndexes",
        skip_serializing_if = "UnknownIndexes::is_empty"
    )]
    unknown: UnknownIndexes,
    /// The policy that the model was compared with.
    #[serde(skip)]
    pub live: IndexingPolicy,
    /// The queries that the live policy does not serve.
    queries: Vec<DegradedQuery>,
    /// Whether the change builds indexes, which reads every document with spare request units.
    reindexes: bool,
    /// The progress of the index towards the live policy, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    indexing_progress: Option<u8>,
    /// The indexes that the change removes; of `apply` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// Whether this command created the container.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// The name of the operator who has changed the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What a dry run would have done with a missing container.
    #[serde(skip_serializing_if = "Option::is_none")]
    would: Option<&'static str>,
}

/// One difference.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    pub text: String,
    /// Whether the difference makes queries scan or fail, or makes writes fail.
    pub breaking: bool,
    /// Whether an existing container can be changed in this respect.
    pub changeable: bool,
}

/// A query that the live policy does not serve.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DegradedQuery {
    query: String,
    /// Whether the service refuses the query. If not, the query scans documents.
    refused: bool,
}

impl Comparison {
    pub(super) async fn of(
        connection: &Connection,
        model: &Model,
        file: Option<&Path>,
    ) -> Result<Self, Failure> {
        if let Some(file) = file {
            let policy = read_policy(file)?;
            let differences = model.definition.indexing_policy.differences_of(&policy);
            let mut differences: Vec<_> =
                differences.into_iter().map(Difference::Indexing).collect();
            let unknown = UnknownIndexes::split_off(model, &mut differences);
            let file = file.display().to_string();
            return Ok(Self {
                unknown,
                ..Self::new(model, file, &differences, &policy)
            });
        }
        let database = connection.database()?;
        let split_off = |differences: &mut _| UnknownIndexes::split_off(model, differences);
        Self::live(&database, &connection.container, model, split_off).await
    }

    /// Compares the model with a live container for a change, which may remove indexes of paths that
    /// this command does not know.
    pub(super) async fn for_change(
        database: &DatabaseClient,
        name: &str,
        model: &Model,
    ) -> Result<Self, Failure> {
        Self::live(database, name, model, |_| UnknownIndexes::default()).await
    }

    async fn live(
        database: &DatabaseClient,
        name: &str,
        model: &Model,
        unknown: impl FnOnce(&mut Vec<Difference>) -> UnknownIndexes,
    ) -> Result<Self, Failure> {
        let live = model.live_definition(database, name).await?;
        let mut differences = Difference::between(&model.definition, &live);
        let unknown = unknown(&mut differences);
        let what = format!("container `{name}` of database `{}`", database.name());
        let mut comparison = Self {
            unknown,
            ..Self::new(model, what, &differences, &live.indexing_policy)
        };
        comparison.indexing_progress = database.indexing_progress(name).await?;
        Ok(comparison)
    }

    /// Returns the plan to create a container that does not exist.
    pub(super) fn with_missing(database: &DatabaseClient, name: &str, model: &Model) -> Self {
        let what = format!("container `{name}` of database `{}`", database.name());
        Self {
            would: Some("create"),
            ..Self::new(model, what, &[], &model.definition.indexing_policy)
        }
    }

    fn new(
        model: &Model,
        compared_with: String,
        differences: &[Difference],
        live: &IndexingPolicy,
    ) -> Self {
        let degraded_queries = model
            .degraded_queries(&model.definition.indexing_policy, live)
            .into_iter();
        Self {
            model: model.name,
            compared_with,
            live: live.clone(),
            reindexes: differences.iter().any(builds_an_index),
            queries: degraded_queries
                .map(|(query, explanation)| DegradedQuery {
                    query: query.name.clone(),
                    refused: !explanation.refused.is_empty(),
                })
                .collect(),
            differences: differences
                .iter()
                .map(|difference| Item {
                    text: difference.to_string(),
                    breaking: is_breaking(difference),
                    changeable: difference.is_changeable(),
                })
                .collect(),
            unknown: UnknownIndexes::default(),
            indexing_progress: None,
            removal: None,
            created: false,
            by: None,
            would: None,
        }
    }

    /// Whether a change of the container removes all differences.
    pub(super) fn is_changeable(&self) -> bool {
        self.differences.iter().all(|item| item.changeable)
    }

    pub(super) fn has_unknown_indexes(&self) -> bool {
        !self.unknown.is_empty()
    }

    pub(super) fn exit(&self, breaking_only: bool) -> Exit {
        let counts = |item: &&Item| item.breaking || !breaking_only;
        match self.differences.iter().filter(counts).count() {
            0 => Exit::Ok,
            _ => Exit::Finding,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(would) = self.would {
            let (what, model) = (&self.compared_with, self.model);
            writeln!(f, "{what} does not exist; would {would} it for {model}")?;
        } else if self.created {
            writeln!(f, "{} was created for {}", self.compared_with, self.model)?;
        } else if self.differences.is_empty() {
            writeln!(f, "{} matches {}", self.compared_with, self.model)?;
        } else {
            writeln!(f, "{} differs from {}:", self.compared_with, self.model)?;
        }
        for item in &self.differences {
            writeln!(
                f,
                "  {} {}",
                if item.breaking { "!" } else { "-" },
                item.text
            )?;
        }
        if !self.unknown.is_empty() {
            writeln!(f, "it has {}", self.unknown)?;
        }
        for (refused, heading) in [
            (true, "queries that the service refuses"),
            (false, "queries that scan documents"),
        ] {
            let mut queries = self
                .queries
                .iter()
                .filter(|query| query.refused == refused)
                .peekable();
            if queries.peek().is_some() {
                writeln!(f, "{heading} until the policy is changed and indexed:")?;
            }
            for query in queries {
                writeln!(f, "  {}", query.query)?;
            }
        }
        if self.reindexes {
            writeln!(
                f,
                "the change builds indexes: the service reads every document once with spare request units; reads and writes continue"
            )?;
        } else if self.is_changeable() && !self.differences.is_empty() {
            writeln!(f, "the change builds no index and takes effect at once")?;
        }
        if let Some(removal) = &self.removal {
            write!(f, "{removal}")?;
        }
        match self.indexing_progress {
            Some(percent) if percent < 100 => writeln!(f, "an earlier change is at {percent} %"),
            _ => Ok(()),
        }
    }
}

fn is_breaking(difference: &Difference) -> bool {
    difference.is_fatal() || difference.breaks_queries()
}

fn builds_an_index(difference: &Difference) -> bool {
    let Difference::Indexing(difference) = difference else {
        return false;
    };
    matches!(
        difference,
        PolicyDifference::Mode { .. }
            | PolicyDifference::MissingPath(_)
            | PolicyDifference::MissingComposite(_)
            | PolicyDifference::MissingSearchIndex(_)
            | PolicyDifference::SuperfluousExclusion(_)
    )
}

fn read_policy(file: &Path) -> Result<IndexingPolicy, Failure> {
    let name = file.display();
    let text = std::fs::read(file)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    serde_json::from_slice(&text)
        .map_err(|error| Failure::usage(format!("{name} is not an indexing policy: {error}")))
}
