//! `cdb instances replay`: replays running instances through the orchestrations of this build.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use cdb_client::query::Continuation;
use cdb_model::Timestamp;
use cdb_provider::documents::Status;
use cdb_provider::observe::InstanceQuery;
use cdb_provider::replay::{DifferenceKind, Export, Recording, Replay};
use clap::Args;
use duroxide::providers::ProviderError;
use futures::stream::{self, Stream};
use futures::{StreamExt as _, TryStreamExt as _, pin_mut};
use serde::Serialize;

use super::select::Filters;
use crate::connection::Connection;
use crate::container::{Orchestrations, payload_codec};
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::{Console, counted};
use crate::view::instances::list;

/// The number of instances that are read and replayed at the same time.
const CONCURRENT: usize = 32;

/// The number of instances per page of the list, and between two progress reports.
const PAGE: usize = 500;

#[derive(Debug, Args)]
pub(super) struct ReplayInstances {
    /// Replay the running instances of this file, which `export` wrote, instead of a container's. No
    /// connection is needed
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Maximum number of differences to show; all instances are replayed
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
    #[command(flatten, next_help_heading = "Filters")]
    filters: Filters,
}

/// The answer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Replayed {
    instances: u64,
    /// The number of instances with a difference.
    different: u64,
    /// The first differences.
    differences: Vec<Row>,
}

/// The difference of an instance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    instance: String,
    execution: u64,
    /// The event at which the code differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<u64>,
    kind: &'static str,
    text: String,
}

impl ReplayInstances {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        model: &Model,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let replay = code(model)?;
        let filter = self.filter(orchestrations.container.now())?;
        let replayed = ids(orchestrations, filter)
            .map_ok(|id| check(orchestrations, replay, id))
            .try_buffer_unordered(CONCURRENT);
        pin_mut!(replayed);
        let mut answer = Replayed::default();
        while let Some(found) = replayed.next().await {
            answer.add(found?, self.limit, console)?;
        }
        console.answer(&answer)?;
        Ok(answer.exit())
    }

    /// Replays the instances of an export, without a connection.
    pub(super) async fn run_on_file(
        &self,
        file: &Path,
        connection: &Connection,
        model: &Model,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let replay = code(model)?;
        let filter = self.filter(now())?;
        let mut export = open(file)?;
        if let Some(codec) = payload_codec(connection, model)? {
            export = export.with_payload_codec(codec);
        }
        let ids = export.ids();
        if ids.is_empty() {
            return Err(Failure::usage(format!(
                "{} holds no instances; write it with `{} export`",
                file.display(),
                console.program
            )));
        }
        let mut answer = Replayed::default();
        for id in ids {
            let recording = match export.instance(&id) {
                Ok(Some(instance)) if filter.matches(&instance) => export.recording(&id),
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            answer.add(compare(replay, id, recording).await?, self.limit, console)?;
        }
        console.answer(&answer)?;
        Ok(answer.exit())
    }

    /// Returns the filter at a time, from which ages count.
    fn filter(&self, now: Timestamp) -> Result<InstanceQuery, Failure> {
        if !self.filters.status.is_empty() {
            return Err(Failure::usage(
                "only running instances are replayed; leave --status out",
            ));
        }
        Ok(InstanceQuery {
            // Between two executions, there is nothing to replay.
            statuses: vec![Status::Running],
            ..self.filters.at(now)
        })
    }
}

/// Returns the orchestrations of this build.
fn code(model: &Model) -> Result<&Replay, Failure> {
    model.settings.replay.as_deref().ok_or_else(|| {
        Failure::usage(
            "this command does not have the code of the orchestrations; call `orchestrations(registry)` of `cdb_cli::Cli` in a command of your own",
        )
    })
}

/// Opens an export.
fn open(file: &Path) -> Result<Export<BufReader<File>>, Failure> {
    let opened = File::open(file).map(BufReader::new).and_then(Export::new);
    opened.map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))
}

/// Returns the ids of the instances that match a filter, page by page.
fn ids(
    orchestrations: &Orchestrations,
    filter: InstanceQuery,
) -> impl Stream<Item = Result<String, Failure>> + '_ {
    let pages = stream::try_unfold(Some(None), move |from: Option<Option<Continuation>>| {
        let filter = filter.clone();
        async move {
            let Some(from) = from else {
                return Ok::<_, Failure>(None);
            };
            let page = list(orchestrations, &filter, PAGE, from).await?;
            let ids = page.instances.into_iter().map(|row| Ok(row.into_id()));
            Ok(Some((stream::iter(ids), page.next.map(Some))))
        }
    });
    pages.try_flatten()
}

/// Replays an instance. Returns `None` if it has ended in the meantime, and its difference if the
/// code differs or the history cannot be read.
async fn check(
    orchestrations: &Orchestrations,
    replay: &Replay,
    id: String,
) -> Result<Option<Result<(), Row>>, Failure> {
    let recording = orchestrations.provider.recording(&id).await;
    compare(replay, id, recording).await
}

/// Returns in words whether the code of this build replays an instance; `None` if this command has no
/// code of orchestrations.
pub(super) async fn replayed(
    orchestrations: &Orchestrations,
    model: &Model,
    id: &str,
) -> Result<Option<String>, Failure> {
    let Some(replay) = model.settings.replay.as_deref() else {
        return Ok(None);
    };
    let checked = check(orchestrations, replay, id.to_owned()).await?;
    Ok(checked.map(|checked| match checked {
        Ok(()) => "makes the recorded decisions".to_owned(),
        Err(Row {
            event: Some(event),
            text,
            ..
        }) => format!("differs at event {event}: {text}"),
        Err(Row { text, .. }) => format!("differs: {text}"),
    }))
}

/// Compares the recording of an instance with the code.
async fn compare(
    replay: &Replay,
    id: String,
    recording: Result<Option<Recording>, ProviderError>,
) -> Result<Option<Result<(), Row>>, Failure> {
    let recording = match recording {
        Ok(Some(recording)) => recording,
        Ok(None) => return Ok(None),
        Err(error) if error.is_retryable() => return Err(error.into()),
        Err(error) => {
            return Ok(Some(Err(Row {
                instance: id,
                execution: 0,
                event: None,
                kind: "unreadable",
                text: error.to_string(),
            })));
        }
    };
    let replay = replay.clone();
    let checked = tokio::task::spawn_blocking(move || replay.check(&recording)).await;
    let checked = checked.map_err(|error| Failure::service(error.to_string()))?;
    Ok(Some(checked.map_err(|difference| Row {
        kind: kind(difference.kind),
        instance: difference.instance,
        execution: difference.execution,
        event: difference.event,
        text: difference.text,
    })))
}

fn kind(kind: DifferenceKind) -> &'static str {
    match kind {
        DifferenceKind::Decision => "decision",
        DifferenceKind::End => "end",
        DifferenceKind::NotRegistered => "notRegistered",
        _ => "unreadable",
    }
}

impl Replayed {
    /// Adds the result of an instance, and reports progress.
    fn add(
        &mut self,
        found: Option<Result<(), Row>>,
        most: usize,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let Some(found) = found else { return Ok(()) };
        self.instances += 1;
        if let Err(row) = found {
            self.different += 1;
            if self.differences.len() < most {
                self.differences.push(row);
            }
        }
        if self.instances.is_multiple_of(PAGE as u64) {
            console.progress(self.summary())?;
        }
        Ok(())
    }

    fn exit(&self) -> Exit {
        match self.different {
            0 => Exit::Ok,
            _ => Exit::Finding,
        }
    }

    fn summary(&self) -> String {
        let instances = counted(self.instances, "instance");
        match self.different {
            0 => format!("replayed {instances}; the code makes the recorded decisions"),
            1 => format!("replayed {instances}; 1 differs"),
            some => format!("replayed {instances}; {some} differ"),
        }
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        for row in &self.differences {
            write!(f, "{}", row.instance)?;
            if let Some(event) = row.event {
                write!(f, ", execution {}, event {event}", row.execution)?;
            }
            writeln!(f, ": {}", row.text)?;
        }
        match self.different.saturating_sub(self.differences.len() as u64) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more; --limit shows more of them"),
        }
    }
}

/// The time of this machine, for a file without a connection. A container gives the time of the service.
fn now() -> Timestamp {
    let millis = jiff::Timestamp::now().as_millisecond();
    Timestamp::from_millis(u64::try_from(millis).unwrap_or_default())
}
