//! `cdb import`: writes documents from JSON lines.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use cdb_client::ContainerClient;
use cdb_provider::documents::Durable;
use clap::Args;
use futures::future::{Either, select};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;
use tokio::signal;

use super::document::{Misplaced, Place, place};
use super::exported::refuse_part;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::{Console, counted};

/// The number of lines that are written before the next are read.
const CHUNK: usize = 1_000;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

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
    /// Import the file of an export that was interrupted
    #[arg(long)]
    partial: bool,
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
    if !args.partial {
        refuse_part(&args.file)?;
    }
    let mut input = Input::open(&args.file)?;
    input.skip(args.skip)?;
    let mut imported = Imported {
        lines: args.skip,
        ..Imported::default()
    };
    let first = input.next_chunk()?;
    let import = args.open(&first, model).await?;
    let chunks = Chunks { first, input };
    let result = if args.file == Path::new("-") {
        // While it waits for standard input, an interruption ends the process.
        import.all(chunks, &mut imported, console).await
    } else {
        let interrupted = signal::ctrl_c();
        let all = import.all(chunks, &mut imported, console);
        match select(pin!(interrupted), pin!(all)).await {
            Either::Left((Ok(()), _)) => Err(Failure::finding("interrupted")),
            // Such a process cannot be interrupted this way.
            Either::Left((Err(_), all)) => all.await,
            Either::Right((result, _)) => result,
        }
    };
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
        let definition = match model.live_definition(&database, name).await {
            Err(error) if self.create && error.is_not_found() => {
                self.check(first, &model.definition.partition_key.paths)?;
                model.create(database.clone(), name).await?;
                model.live_definition(&database, name).await?
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
    input: Input,
}

impl Chunks {
    /// Returns the next lines; none at the end.
    fn next(&mut self) -> Result<Vec<String>, Failure> {
        match std::mem::take(&mut self.first) {
            first if first.is_empty() => self.input.next_chunk(),
            first => Ok(first),
        }
    }
}

/// A file, or standard input, that is read line by line.
struct Input {
    /// As messages name it.
    name: String,
    reader: Box<dyn BufRead + Send>,
    /// The number of lines read.
    lines: usize,
}

impl Input {
    fn open(file: &Path) -> Result<Self, Failure> {
        let (name, reader): (_, Box<dyn BufRead + Send>) = if file == Path::new("-") {
            let input = BufReader::new(io::stdin());
            ("standard input".to_owned(), Box::new(input))
        } else {
            let name = file.display().to_string();
            let opened = File::open(file).map_err(|error| unreadable(&name, &error))?;
            (name, Box::new(BufReader::new(opened)))
        };
        Ok(Self {
            name,
            reader,
            lines: 0,
        })
    }

    /// # Errors
    /// When there are fewer lines: the number belongs to another file.
    fn skip(&mut self, count: usize) -> Result<(), Failure> {
        while self.lines < count {
            if self.next_bytes()?.is_none() {
                return Err(Failure::usage(format!(
                    "{} has {}, so --skip {count} skips all; give the number that the interrupted import reported",
                    self.name,
                    counted(self.lines as u64, "line"),
                )));
            }
        }
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<Vec<String>, Failure> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let Some(line) = self.next_bytes()? else {
                break;
            };
            let line = String::from_utf8(line).map_err(|error| {
                let byte = error.utf8_error().valid_up_to() + 1;
                let (name, number) = (&self.name, self.lines);
                Failure::usage(format!(
                    "{name}: line {number}, byte {byte}: not UTF-8; save the file as UTF-8"
                ))
            })?;
            chunk.push(line);
        }
        Ok(chunk)
    }

    /// Returns the next line without its end; none at the end of the file.
    fn next_bytes(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        if read.map_err(|error| unreadable(&self.name, &error))? == 0 {
            return Ok(None);
        }
        // Editors begin a file with a byte order mark.
        if self.lines == 0 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        }
        self.lines += 1;
        Ok(Some(line))
    }
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {name}: {error}"))
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
            let file = &*chunks.input.name;
            let written = self.write(&chunk, file, imported.lines).await?;
            imported.documents += written;
            imported.lines += chunk.len();
            if let Some(max_rus) = self.max_rus {
                let due = time_of(self.charge() - before, max_rus);
                tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
            }
        }
    }

    /// Writes a chunk and returns the number of its documents. Of several versions of a document,
    /// the last one is written. Errors name the file and the line.
    async fn write(
        &self,
        chunk: &[String],
        file: &str,
        lines_before: usize,
    ) -> Result<u64, Failure> {
        let mut newest: HashMap<Place, (usize, &str)> = HashMap::with_capacity(chunk.len());
        for (number, line) in (lines_before + 1..).zip(chunk) {
            if line.trim().is_empty() {
                continue;
            }
            let place = place(line, &self.paths).map_err(|Misplaced { column, why }| {
                let column = column.map(|column| format!(", column {column}"));
                let column = column.unwrap_or_default();
                Failure::usage(format!("{file}: line {number}{column}: {why}"))
            })?;
            newest.insert(place, (number, line));
        }
        let written = newest.len() as u64;
        let container = &self.container;
        stream::iter(newest)
            .map(|(place, (number, line))| async move {
                container
                    .upsert_json(&place.partition, line)
                    .await
                    .map_err(|error| {
                        let mut failure = Failure::from(error);
                        failure.message = format!(
                            "{file}: line {number}: document `{}`: {}",
                            place.id, failure.message
                        );
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
