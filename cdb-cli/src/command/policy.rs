//! `cdb policy`: prints the model's indexing policy, compares it with the live policy, and replaces
//! the live policy.

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

/// The interval between two reads of the indexing progress.
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
        /// Output format
        #[arg(long, value_enum, default_value_t = Format::Json)]
        format: Format,
    },
    /// Show the differences to the live container and the cost of each change; exit code 1 if there
    /// are any
    Diff {
        /// Compare with a policy file in JSON instead of the live container
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Replace the live container's policy online, and wait until the indexes are built
    Apply(ApplyOptions),
    /// For CI: exit code 1 if the live container, or a file, differs from the model
    Check {
        /// Compare with a policy file in JSON instead of the live container
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Fail only for differences that make queries scan or fail, not for those that only raise
        /// the cost
        #[arg(long)]
        breaking_only: bool,
    },
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
#[derive(Debug, Args)]
struct ApplyOptions {
    /// Show the changes and make none
    #[arg(long)]
    dry_run: bool,
    /// Create the container and its database if they are missing
    #[arg(long)]
    create: bool,
    /// Change the default time to live too; the service deletes documents older than that
    #[arg(long)]
    time_to_live: bool,
    /// Add indexes and remove none: the first of two steps while an older program still runs
    #[arg(long)]
    add_only: bool,
    /// Do not wait until the indexes are built
    #[arg(long)]
    no_wait: bool,
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
                    "--json requires --format json or --format arm; the other formats are not JSON",
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
            check(&comparison, *breaking_only, console)
        }
        PolicyCommand::Apply(options) => {
            let apply = Apply {
                connection,
                model,
                options,
            };
            apply.run(console).await
        }
    }
}

fn check(
    comparison: &Comparison,
    breaking_only: bool,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let exit = comparison.exit(breaking_only);
    let (what, name) = (&comparison.compared_with, &comparison.model);
    if console.json {
        console.answer(comparison)?;
    } else if exit == Exit::Ok {
        console.text(&format!("{what} matches {name}"))?;
    } else {
        console.text(&format!(
            "{what} does not match {name}; `{} policy apply` changes it\n\n{comparison}",
            console.program
        ))?;
    }
    Ok(exit)
}

/// The differences between the model and a live container or a policy file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    model: &'static str,
    /// The container or the file that the model was compared with.
    compared_with: String,
    differences: Vec<Item>,
    /// The queries that the live policy does not serve.
    queries: Vec<DegradedQuery>,
    /// Whether the change builds indexes, which reads every document with spare request units.
    reindexes: bool,
    /// The progress of the index towards the live policy, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    indexing_progress: Option<u8>,
    /// Whether this command created the container.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    created: bool,
}

/// One difference.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    text: String,
    /// Whether the difference makes queries scan or fail, or makes writes fail.
    breaking: bool,
    /// Whether an existing container can be changed in this respect.
    changeable: bool,
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
    async fn of(
        connection: &Connection,
        model: &Model,
        file: Option<&Path>,
    ) -> Result<Self, Failure> {
        if let Some(file) = file {
            let policy = read_policy(file)?;
            let drift = model.definition.indexing_policy.drift_of(&policy);
            let differences: Vec<_> = drift.into_iter().map(Difference::Indexing).collect();
            let file = file.display().to_string();
            return Ok(Self::new(model, file, &differences, &policy));
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
        } else if !self.differences.is_empty() {
            writeln!(f, "the change builds no index and takes effect at once")?;
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
        .map_err(|error| Failure::usage(format!("{name} is not an indexing policy: {error}")))
}

/// A run of `cdb policy apply`.
struct Apply<'a> {
    connection: &'a Connection,
    model: &'a Model,
    options: &'a ApplyOptions,
}

impl Apply<'_> {
    async fn run(&self, console: &mut Console<'_>) -> Result<Exit, Failure> {
        let (name, model, options) = (&self.connection.container, self.model, self.options);
        let database = self.connection.database()?;
        let created = options.create && !options.dry_run && self.create(&database).await?;
        let mut comparison = Comparison::with_live(&database, name, model).await?;
        comparison.created = created && comparison.differences.is_empty();
        if options.dry_run || comparison.differences.is_empty() {
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
        if !options.no_wait {
            wait_for_index(&database, name, console).await?;
        }
        let remaining = Comparison::with_live(&database, name, model).await?;
        console.answer(&remaining)?;
        Ok(remaining.exit(options.add_only))
    }

    /// Creates the container if it is missing. Returns `true` if it was missing.
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
        let policy = self.model.definition.indexing_policy.clone();
        let policy = if self.options.add_only {
            with_added_indexes(live, policy)
        } else {
            policy
        };
        let change = ContainerChange::default().with_indexing_policy(policy);
        if self.options.time_to_live {
            change.with_default_ttl(self.model.definition.default_ttl)
        } else {
            change
        }
    }
}

/// Returns the live policy with the indexes of the model added and none removed.
fn with_added_indexes(mut live: IndexingPolicy, model: IndexingPolicy) -> IndexingPolicy {
    live.indexing_mode = model.indexing_mode;
    let excluded = &mut live.excluded_paths;
    excluded.retain(|path| {
        model
            .included_paths
            .iter()
            .all(|included| included.path != path.path)
    });
    for path in model.included_paths {
        if !live.included_paths.contains(&path) {
            live.included_paths.push(path);
        }
    }
    // The service requires the root in one of the two lists.
    let has_root = live.included_paths.iter().any(|path| path.path == "/*")
        || live.excluded_paths.iter().any(|path| path.path == "/*");
    if !has_root {
        live.excluded_paths.extend(
            model
                .excluded_paths
                .into_iter()
                .filter(|path| path.path == "/*"),
        );
    }
    for composite in model.composite_indexes {
        if !live.composite_indexes.contains(&composite) {
            live.composite_indexes.push(composite);
        }
    }
    live
}

/// Reports the indexing progress until the index is complete.
async fn wait_for_index(
    database: &DatabaseClient,
    name: &str,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    loop {
        let Some(percent) = database.indexing_progress(name).await? else {
            console.remark("the service does not report the indexing progress")?;
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
    fn add_only_removes_no_index() {
        let model = Durable::definition().indexing_policy;
        for live in [
            r#"{ "indexingMode": "consistent", "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/\"_etag\"/?" }] }"#,
            r#"{ "indexingMode": "consistent", "includedPaths": [{ "path": "/old/?" }], "excludedPaths": [{ "path": "/*" }],
                "compositeIndexes": [[{ "path": "/old" }, { "path": "/older" }]] }"#,
            r#"{ "indexingMode": "none" }"#,
        ] {
            let live = policy(live);
            let policy = with_added_indexes(live.clone(), model.clone());
            assert!(
                live.included_paths
                    .iter()
                    .all(|path| policy.included_paths.contains(path))
            );
            assert!(
                live.composite_indexes
                    .iter()
                    .all(|index| policy.composite_indexes.contains(index))
            );
            let drift = model.drift_of(&policy);
            assert!(!drift.iter().any(Drift::breaks_queries), "{drift:?}");
        }
    }
}
