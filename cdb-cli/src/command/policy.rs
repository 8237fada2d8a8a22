//! `cdb policy`: the model's indexing policy beside the live one, and how to get from one to the other.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cdb_client::{ContainerChange, DatabaseClient, Difference};
use cdb_model::{Drift, IndexingPolicy};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::format::Format;
use crate::model::Model;
use crate::output::Console;

/// How often the service is asked for its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Print the model's policy, for review or for infrastructure as code
    Print {
        /// In which language
        #[arg(long, value_enum, default_value_t = Format::Json)]
        format: Format,
    },
    /// Show what differs from the live container, and what it costs to change; ends with 1 when anything does
    Diff {
        /// Compare a file with a policy in JSON instead of the live container
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Replace the live container's policy, without interruption, and follow the indexing
    Apply {
        /// Show what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Create the container, and its database, if there is none
        #[arg(long)]
        create: bool,
        /// Change the default time to live too; documents that have outlived it are deleted
        #[arg(long)]
        time_to_live: bool,
        /// Only add indexes, remove none: the first of two steps while an older program still runs
        #[arg(long)]
        add_only: bool,
        /// Do not wait until the indexes are built
        #[arg(long)]
        no_wait: bool,
    },
    /// For CI: end with 1 when the live container, or a file, differs from the model
    Check {
        /// Compare a file with a policy in JSON instead of the live container
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Complain only about what makes queries scan or be refused, not about what only costs
        #[arg(long)]
        breaking_only: bool,
    },
}

pub(crate) async fn run(
    args: &PolicyArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let connection = &args.connection;
    match &args.command {
        PolicyCommand::Print { format } => {
            if console.json && !format.is_json() {
                return Err(Failure::usage(
                    "--json goes with --format json or arm; the others are no JSON",
                ));
            }
            console.text(&format.write(&connection.container, &model.definition))?;
            Ok(Exit::Ok)
        }
        PolicyCommand::Diff { file } => {
            let comparison = Comparison::of(connection, model, file.as_deref()).await?;
            console.answer(&comparison)?;
            Ok(comparison.exit(false))
        }
        PolicyCommand::Check {
            file,
            breaking_only,
        } => {
            let comparison = Comparison::of(connection, model, file.as_deref()).await?;
            let exit = comparison.exit(*breaking_only);
            let (what, name) = (&comparison.compared_with, &comparison.model);
            let text = match exit {
                Exit::Ok => format!("{what} is as {name} wants it"),
                _ => format!(
                    "{what} is not as {name} wants it; `{} policy apply` changes it\n\n{comparison}",
                    console.program
                ),
            };
            if console.json {
                console.answer(&comparison)?;
            } else {
                console.text(&text)?;
            }
            Ok(exit)
        }
        PolicyCommand::Apply {
            dry_run,
            create,
            time_to_live,
            add_only,
            no_wait,
        } => {
            let apply = Apply {
                connection,
                model,
                time_to_live: *time_to_live,
                add_only: *add_only,
            };
            apply.run((*dry_run, *create, *no_wait), console).await
        }
    }
}

/// How something is not as the model wants it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    model: &'static str,
    /// What the model was compared with, in words.
    compared_with: String,
    differences: Vec<Item>,
    /// What becomes of the model's queries until it is changed.
    queries: Vec<DegradedQuery>,
    /// Whether indexes have to be built, which reads every document with spare request units.
    reindexes: bool,
    /// How far the index follows the live policy, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    indexing_progress: Option<u8>,
    /// Whether the container was made just now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    created: bool,
}

/// One difference.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    text: String,
    /// Whether queries scan or are refused because of it, or nothing can be stored.
    breaking: bool,
    /// Whether it can be changed on a container that exists.
    changeable: bool,
}

/// A query that the live policy does not serve.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DegradedQuery {
    query: String,
    /// Whether the service refuses it; otherwise it looks at documents one by one.
    refused: bool,
}

impl Comparison {
    async fn of(
        connection: &Connection,
        model: &Model,
        file: Option<&Path>,
    ) -> Result<Self, Failure> {
        if let Some(file) = file {
            let live = read_policy(file)?;
            let drift = model.definition.indexing_policy.drift_of(&live);
            let differences: Vec<_> = drift.into_iter().map(Difference::Indexing).collect();
            return Ok(Self::new(
                model,
                file.display().to_string(),
                &differences,
                &live,
            ));
        }
        let database = connection.database()?;
        Self::with_live(&database, &connection.container, model).await
    }

    async fn with_live(
        database: &DatabaseClient,
        name: &str,
        model: &Model,
    ) -> Result<Self, Failure> {
        let live = model.live(database, name).await?;
        let differences = Difference::between(&model.definition, &live);
        let what = format!("container `{name}` of database `{}`", database.name());
        let mut comparison = Self::new(model, what, &differences, &live.indexing_policy);
        comparison.indexing_progress = database.indexing_progress(name).await?;
        Ok(comparison)
    }

    fn new(
        model: &Model,
        compared_with: String,
        differences: &[Difference],
        live: &IndexingPolicy,
    ) -> Self {
        let degraded_queries = model.degraded_queries(live).into_iter();
        Self {
            model: model.name,
            compared_with,
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
                    changeable: is_changeable(difference),
                })
                .collect(),
            indexing_progress: None,
            created: false,
        }
    }

    fn exit(&self, breaking_only: bool) -> Exit {
        let counts = |item: &&Item| item.breaking || !breaking_only;
        match self.differences.iter().filter(counts).count() {
            0 => Exit::Ok,
            _ => Exit::Finding,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.created {
            writeln!(
                f,
                "{} is created, as {} wants it",
                self.compared_with, self.model
            )?;
        } else if self.differences.is_empty() {
            writeln!(f, "{} is as {} wants it", self.compared_with, self.model)?;
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
        for (refused, says) in [
            (true, "refused"),
            (false, "documents are looked at one by one"),
        ] {
            let mut hit = self
                .queries
                .iter()
                .filter(|query| query.refused == refused)
                .peekable();
            if hit.peek().is_some() {
                writeln!(f, "until it is changed and indexed, {says}:")?;
            }
            for query in hit {
                writeln!(f, "  {}", query.query)?;
            }
        }
        if self.reindexes {
            writeln!(
                f,
                "changing it builds indexes: every document is read once with spare request units, while writes and queries go on"
            )?;
        } else if !self.differences.is_empty() {
            writeln!(f, "changing it builds no index and takes effect at once")?;
        }
        match self.indexing_progress {
            Some(percent) if percent < 100 => writeln!(f, "an earlier change is at {percent} %"),
            _ => Ok(()),
        }
    }
}

fn is_breaking(difference: &Difference) -> bool {
    match difference {
        Difference::Indexing(drift) => drift.breaks_queries(),
        other => other.is_fatal(),
    }
}

fn is_changeable(difference: &Difference) -> bool {
    matches!(
        difference,
        Difference::Indexing(_) | Difference::TimeToLive { .. }
    )
}

fn builds_an_index(difference: &Difference) -> bool {
    let Difference::Indexing(drift) = difference else {
        return false;
    };
    matches!(
        drift,
        Drift::Mode { .. }
            | Drift::MissingPath(_)
            | Drift::MissingComposite(_)
            | Drift::SuperfluousExclusion(_)
    )
}

fn read_policy(file: &Path) -> Result<IndexingPolicy, Failure> {
    let name = file.display();
    let text = std::fs::read(file)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    serde_json::from_slice(&text)
        .map_err(|error| Failure::usage(format!("no indexing policy in {name}: {error}")))
}

/// The way to the model's policy.
struct Apply<'a> {
    connection: &'a Connection,
    model: &'a Model,
    time_to_live: bool,
    add_only: bool,
}

impl Apply<'_> {
    async fn run(
        &self,
        (dry_run, create, no_wait): (bool, bool, bool),
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let (name, model) = (&self.connection.container, self.model);
        let database = self.connection.database()?;
        let created = create && !dry_run && self.create(&database).await?;
        let mut comparison = Comparison::with_live(&database, name, model).await?;
        comparison.created = created && comparison.differences.is_empty();
        if dry_run || comparison.differences.is_empty() {
            console.answer(&comparison)?;
            return Ok(comparison.exit(false));
        }
        if let Some(item) = comparison
            .differences
            .iter()
            .find(|item| item.breaking && !item.changeable)
        {
            return Err(Failure::finding(item.text.clone()));
        }
        if !console.json {
            console.remark(comparison.to_string().trim_end())?;
        }
        let live = model.live(&database, name).await?.indexing_policy;
        database.change_container(name, &self.change(live)).await?;
        if !no_wait {
            follow(&database, name, console).await?;
        }
        let left = Comparison::with_live(&database, name, model).await?;
        console.answer(&left)?;
        Ok(left.exit(self.add_only))
    }

    /// Makes the container where there is none, and says whether it did.
    async fn create(&self, database: &DatabaseClient) -> Result<bool, Failure> {
        let name = &self.connection.container;
        match self.model.live(database, name).await {
            Err(error) if error.is_not_found() => {
                self.model.create(database.clone(), name).await?;
                Ok(true)
            }
            live => Ok(live.map(|_| false)?),
        }
    }

    fn change(&self, live: IndexingPolicy) -> ContainerChange {
        let wanted = self.model.definition.indexing_policy.clone();
        let policy = if self.add_only {
            added(live, wanted)
        } else {
            wanted
        };
        let change = ContainerChange::default().with_indexing_policy(policy);
        if self.time_to_live {
            change.with_default_ttl(self.model.definition.default_ttl)
        } else {
            change
        }
    }
}

/// The live policy with what the model indexes besides, and nothing less than before.
fn added(mut live: IndexingPolicy, wanted: IndexingPolicy) -> IndexingPolicy {
    live.indexing_mode = wanted.indexing_mode;
    let excluded = &mut live.excluded_paths;
    excluded.retain(|path| {
        wanted
            .included_paths
            .iter()
            .all(|included| included.path != path.path)
    });
    for path in wanted.included_paths {
        if !live.included_paths.contains(&path) {
            live.included_paths.push(path);
        }
    }
    // The service wants the root on one of the two lists.
    let has_root = live.included_paths.iter().any(|path| path.path == "/*")
        || live.excluded_paths.iter().any(|path| path.path == "/*");
    if !has_root {
        live.excluded_paths.extend(
            wanted
                .excluded_paths
                .into_iter()
                .filter(|path| path.path == "/*"),
        );
    }
    for composite in wanted.composite_indexes {
        if !live.composite_indexes.contains(&composite) {
            live.composite_indexes.push(composite);
        }
    }
    live
}

/// Shows how far the index follows the policy, until it does.
async fn follow(
    database: &DatabaseClient,
    name: &str,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    loop {
        let Some(percent) = database.indexing_progress(name).await? else {
            console.remark("the service does not tell how far the indexing is")?;
            return Ok(());
        };
        console.progress(format!("indexing: {percent} %"))?;
        if percent >= 100 {
            return Ok(());
        }
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use cdb_model::Container;
    use cdb_provider::documents::Durable;

    use super::*;

    fn policy(text: &str) -> IndexingPolicy {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_first_of_two_steps_takes_no_index_away() {
        let wanted = Durable::definition().indexing_policy;
        for live in [
            r#"{ "indexingMode": "consistent", "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/\"_etag\"/?" }] }"#,
            r#"{ "indexingMode": "consistent", "includedPaths": [{ "path": "/old/?" }], "excludedPaths": [{ "path": "/*" }],
                "compositeIndexes": [[{ "path": "/old" }, { "path": "/older" }]] }"#,
            r#"{ "indexingMode": "none" }"#,
        ] {
            let live = policy(live);
            let step = added(live.clone(), wanted.clone());
            assert!(
                live.included_paths
                    .iter()
                    .all(|path| step.included_paths.contains(path))
            );
            assert!(
                live.composite_indexes
                    .iter()
                    .all(|index| step.composite_indexes.contains(index))
            );
            let drift = wanted.drift_of(&step);
            assert!(!drift.iter().any(Drift::breaks_queries), "{drift:?}");
        }
    }
}
