//! `cdb import`: writes documents from JSON lines.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cdb_client::ContainerClient;
use cdb_provider::documents::Durable;
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use super::document::{Place, place};
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::{Console, counted};

/// The number of lines that are written before the next are read.
const CHUNK: usize = 1_000;

/// The number of concurrent writes.
const CONCURRENT: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// File with a document per line, as `export` writes it; `-` reads standard input
    file: PathBuf,
    /// Number of lines to skip, as an interrupted import reported it
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    skip: usize,
    /// Most request units per second to spend; unlimited by default
    #[arg(long, value_name = "RU/S", value_parser = clap::value_parser!(u32).range(1..))]
    max_rus: Option<u32>,
    /// Create the container and its database if they are missing, as the model defines them
    #[arg(long)]
    create: bool,
    /// Import a file in which no document has the properties of the container's partition key
    #[arg(long)]
    without_key: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The result, in numbers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Imported {
    documents: u64,
    /// The number of lines read, the skipped ones included.
    lines: usize,
    request_units: u64,
}

pub(crate) async fn run(
    args: &ImportArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let mut imported = Imported::default();
    // First, because a missing file needs no connection.
    let mut lines = open(&args.file)?.lines();
    for _ in 0..args.skip {
        if lines.next().transpose()?.is_none() {
            break;
        }
        imported.lines += 1;
    }
    let first = next_chunk(&mut lines)?;
    let import = args.open(&first, model).await?;
    let chunks = Chunks { first, lines };
    let result = import.all(chunks, &mut imported, console).await;
    imported.request_units = import.charge();
    match result {
        Ok(()) => {
            console.answer(&imported)?;
            Ok(Exit::Ok)
        }
        Err(failure) => {
            // Documents are replaced, so lines may be imported twice.
            console.remark(&format!(
                "{imported}; continue with --skip {}",
                imported.lines
            ))?;
            Err(failure)
        }
    }
}

impl ImportArgs {
    /// Opens the container after a check that the first lines belong into it.
    async fn open(&self, first: &[String], model: &Model) -> Result<Import, Failure> {
        let (database, name) = (self.connection.database()?, &*self.connection.container);
        let definition = match model.live(&database, name).await {
            Err(error) if self.create && error.is_not_found() => {
                self.check(first, &model.definition.partition_key.paths)?;
                model.create(database.clone(), name).await?;
                model.live(&database, name).await?
            }
            live => live?,
        };
        let paths = definition.partition_key.paths;
        self.check(first, &paths)?;
        Ok(Import {
            container: database.container(name),
            paths,
            max_rus: self.max_rus,
        })
    }

    /// Refuses documents of another container: none has a property of the partition key. The service
    /// would store all of them in one logical partition.
    fn check(&self, first: &[String], paths: &[String]) -> Result<(), Failure> {
        let documents = first.iter().filter_map(|line| place(line, paths).ok());
        let documents: Vec<Place> = documents.collect();
        let has_key = |document: &Place| !document.partition.is_missing();
        if self.without_key || documents.is_empty() || documents.iter().any(has_key) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "no document of the first {} has the container's partition key, {}: is it the file of another container? \
             Name its container with --container, or import it as it is with --without-key",
            counted(first.len() as u64, "line"),
            paths.join(", "),
        )))
    }
}

/// The lines of a file; the first ones have been read.
struct Chunks {
    first: Vec<String>,
    lines: Lines<Box<dyn BufRead + Send>>,
}

impl Chunks {
    /// Returns the next lines; none at the end.
    fn next(&mut self) -> io::Result<Vec<String>> {
        match std::mem::take(&mut self.first) {
            first if first.is_empty() => next_chunk(&mut self.lines),
            first => Ok(first),
        }
    }
}

fn next_chunk(lines: &mut Lines<Box<dyn BufRead + Send>>) -> io::Result<Vec<String>> {
    lines.by_ref().take(CHUNK).collect()
}

struct Import {
    /// Documents are written as JSON, so the type of the container does not matter.
    container: ContainerClient<Durable>,
    /// The paths of the partition key.
    paths: Vec<String>,
    max_rus: Option<u32>,
}

impl Import {
    /// Imports chunk by chunk; `imported` counts the complete chunks.
    async fn all(
        &self,
        mut chunks: Chunks,
        imported: &mut Imported,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        loop {
            let begun = Instant::now();
            let before = self.charge();
            let chunk = chunks.next()?;
            if chunk.is_empty() {
                return Ok(());
            }
            // Before the next chunk, because the answer reports the last one.
            if imported.documents > 0 {
                console.progress(imported.to_string())?;
            }
            imported.documents += self.write(&chunk, imported.lines).await?;
            imported.lines += chunk.len();
            if let Some(max_rus) = self.max_rus {
                let due = time_of(self.charge() - before, max_rus);
                tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
            }
        }
    }

    /// Writes a chunk and returns the number of its documents. Of several versions of a document,
    /// the last one is written.
    async fn write(&self, chunk: &[String], lines_before: usize) -> Result<u64, Failure> {
        let mut newest: HashMap<Place, &str> = HashMap::with_capacity(chunk.len());
        for (number, line) in chunk.iter().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let place = place(line, &self.paths).map_err(|error| {
                Failure::usage(format!("line {}: {error}", lines_before + number + 1))
            })?;
            newest.insert(place, line);
        }
        let written = newest.len() as u64;
        let container = &self.container;
        stream::iter(newest)
            .map(|(place, line)| async move {
                container
                    .upsert_json(&place.partition, line)
                    .await
                    .map_err(|error| {
                        let mut failure = Failure::from(error);
                        failure.message = format!("document `{}`: {}", place.id, failure.message);
                        failure
                    })
            })
            .buffer_unordered(CONCURRENT)
            .try_collect::<()>()
            .await?;
        Ok(written)
    }

    /// The request units of this command, rounded up.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a charge is positive, and below 2^64"
    )]
    fn charge(&self) -> u64 {
        self.container.usage().total().charge.ceil() as u64
    }
}

/// The time in which the budget allows a charge.
fn time_of(charge: u64, max_rus: u32) -> Duration {
    Duration::from_millis(charge * 1_000 / u64::from(max_rus))
}

fn open(file: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(Box::new(BufReader::new(opened)))
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "imported {}", counted(self.documents, "document"))?;
        if self.request_units > 0 {
            write!(f, " for {} RU", self.request_units)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_takes_the_time_in_which_the_budget_allows_it() {
        assert_eq!(time_of(7_000, 2_000), Duration::from_millis(3_500));
        assert_eq!(time_of(0, 1), Duration::ZERO);
    }
}
