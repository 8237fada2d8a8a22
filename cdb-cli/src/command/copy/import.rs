//! `cdb import`: writes documents from JSON lines.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
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
    // First, because a missing file needs no connection.
    let file = open(&args.file)?;
    let (database, name) = (args.connection.database()?, &*args.connection.container);
    if args.create {
        model.create(database.clone(), name).await?;
    }
    let definition = model.live(&database, name).await?;
    let import = Import {
        container: database.container(name),
        paths: definition.partition_key.paths,
        max_rus: args.max_rus,
    };
    let mut imported = Imported::default();
    let result = import.lines(file, args.skip, &mut imported, console).await;
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

struct Import {
    /// Documents are written as JSON, so the type of the container does not matter.
    container: ContainerClient<Durable>,
    /// The paths of the partition key.
    paths: Vec<String>,
    max_rus: Option<u32>,
}

impl Import {
    /// Imports chunk by chunk; `imported` counts the complete chunks.
    async fn lines(
        &self,
        file: Box<dyn BufRead + Send>,
        skip: usize,
        imported: &mut Imported,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let mut lines = file.lines();
        for _ in 0..skip {
            if lines.next().transpose()?.is_none() {
                break;
            }
            imported.lines += 1;
        }
        loop {
            let begun = Instant::now();
            let before = self.charge();
            let mut chunk = Vec::with_capacity(CHUNK);
            for line in lines.by_ref().take(CHUNK) {
                chunk.push(line?);
            }
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
        return Ok(Box::new(BufReader::new(std::io::stdin())));
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
