//! `cdb export`: writes the documents of a container as JSON lines.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use cdb_client::ContainerClient;
use cdb_client::feed::{FeedCursor, FeedStart};
use cdb_provider::documents::Durable;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::exported::{
    Exported, part_file, progress_file, refuse_existing, remove, remove_progress,
};
use super::instances;
use super::whole_file;
use crate::connection::Connection;
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

/// The number of documents per page and physical partition.
const PAGE: u32 = 1_000;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// File to write; standard output by default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only this instance and its sub-orchestrations; can be repeated
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    instance: Vec<String>,
    /// Continue an interrupted export of a container to --out
    #[arg(long, requires = "out")]
    resume: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The progress of an export, in the file `FILE.progress` until the export is complete.
#[derive(Serialize, Deserialize)]
struct Progress {
    #[serde(flatten)]
    source: Source,
    documents: u64,
    /// The length of the file up to the cursor.
    bytes: u64,
    cursor: FeedCursor,
}

/// The container of an export. The cursor of another one would omit documents.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    endpoint: String,
    database: String,
    container: String,
}

pub(crate) async fn run(
    args: &ExportArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    match (&args.out, &*args.instance) {
        (None, []) => args.container_to_output(console).await,
        (Some(file), []) => args.container_to_file(file, console).await,
        (out, named) => {
            let orchestrations = Orchestrations::open(&args.connection, model).await?;
            instances::export(&orchestrations, named, out.as_deref(), console).await
        }
    }
}

impl ExportArgs {
    fn container(&self) -> Result<ContainerClient<Durable>, Failure> {
        // Documents are read as JSON, so the type of the container does not matter.
        let container = self
            .connection
            .database()?
            .container(&self.connection.container);
        Ok(container.in_background())
    }

    async fn container_to_output(&self, console: &mut Console<'_>) -> Result<Exit, Failure> {
        let feed = self.container()?.change_feed(FeedStart::Beginning);
        let mut feed = feed.page_size(PAGE);
        let mut exported = Exported::default();
        loop {
            let documents = feed.next_documents().await?;
            if documents.is_empty() {
                console.remark(&exported.to_string())?;
                return Ok(Exit::Ok);
            }
            for document in &documents {
                exported.write(document.get(), console.out)?;
            }
        }
    }

    fn source(&self) -> Source {
        Source {
            endpoint: self.connection.shown_endpoint(),
            database: self.connection.database.clone(),
            container: self.connection.container.clone(),
        }
    }

    async fn container_to_file(
        &self,
        file: &Path,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let container = self.container()?;
        let (resumed, feed) = if self.resume {
            let (file, cursor) = ExportFile::resume(file, self.source())?;
            (Some(file), container.resume_change_feed(cursor))
        } else {
            for file in [file, &part_file(file)] {
                refuse_existing(
                    file,
                    "continue its export with --resume, name another file, or delete it",
                )?;
            }
            // That of an older export does not belong to the new file.
            remove_progress(file)?;
            (None, container.change_feed(FeedStart::Beginning))
        };
        let mut feed = feed.page_size(PAGE);
        let mut documents = feed.next_documents().await?;
        // An export that fails before its first page leaves no file.
        let mut file = match resumed {
            Some(file) => file,
            None => ExportFile::create(file, self.source())?,
        };
        while !documents.is_empty() {
            // Before the next page, because the answer reports the last one.
            if file.exported.documents > 0 {
                console.progress(file.exported.to_string())?;
            }
            file.append(&documents, feed.cursor())?;
            documents = match feed.next_documents().await {
                Ok(documents) => documents,
                Err(error) => {
                    console.remark(&format!("{}; continue with --resume", file.exported))?;
                    return Err(error.into());
                }
            };
        }
        console.answer(&file.finish()?)?;
        Ok(Exit::Ok)
    }
}

/// A file that receives the documents of a container, and the file with its progress. It has the name
/// `FILE.part` until it is complete, so that no one takes it for the whole.
struct ExportFile {
    out: File,
    path: PathBuf,
    progress_file: PathBuf,
    source: Source,
    exported: Exported,
}

impl ExportFile {
    fn create(path: &Path, source: Source) -> Result<Self, Failure> {
        Ok(Self {
            out: new_file(&part_file(path))?,
            path: path.to_owned(),
            progress_file: progress_file(path),
            source,
            exported: Exported::default(),
        })
    }

    /// Opens the file of an interrupted export, and cuts off what was written after its last
    /// cursor.
    ///
    /// # Errors
    /// When there is no progress, or that of another container or another file.
    fn resume(path: &Path, source: Source) -> Result<(Self, FeedCursor), Failure> {
        let progress_file = progress_file(path);
        let refuse = |error: &dyn fmt::Display| {
            let name = progress_file.display();
            Failure::usage(format!("there is no interrupted export: {name}: {error}"))
        };
        let progress = fs::read(&progress_file).map_err(|error| refuse(&error))?;
        let progress: Progress =
            serde_json::from_slice(&progress).map_err(|error| refuse(&error))?;
        let name = progress_file.display();
        if progress.source != source {
            return Err(Failure::usage(format!(
                "{name} is the progress of an export of {}; this one is of {source}: name another file",
                progress.source
            )));
        }
        let part = part_file(path);
        // Earlier versions wrote to the file itself, and an export may end before it removes its progress.
        let found = if part.exists() { &part } else { path };
        let mut out = OpenOptions::new().write(true).open(found)?;
        if out.metadata()?.len() < progress.bytes {
            let file = found.display();
            return Err(Failure::usage(format!(
                "{file} has changed; delete both it and {name}, and export again"
            )));
        }
        fs::rename(found, &part)?;
        out.set_len(progress.bytes)?;
        out.seek(SeekFrom::End(0))?;
        let documents = progress.documents;
        let file = Self {
            out,
            path: path.to_owned(),
            progress_file,
            source,
            exported: Exported { documents },
        };
        Ok((file, progress.cursor))
    }

    /// Writes documents, then the cursor after them.
    fn append(&mut self, documents: &[Box<RawValue>], cursor: &FeedCursor) -> Result<(), Failure> {
        let mut out = BufWriter::new(&mut self.out);
        for document in documents {
            self.exported.write(document.get(), &mut out)?;
        }
        out.flush()?;
        drop(out);
        // The progress must not be more durable than the documents.
        self.out.sync_data()?;
        let progress = Progress {
            source: self.source.clone(),
            documents: self.exported.documents,
            bytes: self.out.stream_position()?,
            cursor: cursor.clone(),
        };
        Ok(whole_file::replace(&self.progress_file, &progress)?)
    }

    /// Gives the file its name, and removes the progress: the export is complete.
    fn finish(self) -> Result<Exported, Failure> {
        refuse_existing(&self.path, "move it away, and continue with --resume")?;
        fs::rename(part_file(&self.path), &self.path)?;
        whole_file::sync_folder(&self.path)?;
        remove(&self.progress_file)?;
        Ok(self.exported)
    }
}

/// # Errors
/// When the file exists.
fn new_file(path: &Path) -> Result<File, Failure> {
    let file = whole_file::private()
        .write(true)
        .create_new(true)
        .open(path);
    let file =
        file.map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
    whole_file::sync_folder(path)?;
    Ok(file)
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoint,
            database,
            container,
        } = self;
        write!(f, "`{database}/{container}` at {endpoint}")
    }
}
