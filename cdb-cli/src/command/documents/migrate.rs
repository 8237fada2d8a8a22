//! `cdb migrate`: rewrites documents of older versions in the version of their type.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cdb_client::feed::FeedCursor;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::whole_file;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::{Console, counted};

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// File that keeps the position. An interrupted migration continues there; the file is removed
    /// at the end
    #[arg(long, value_name = "FILE")]
    position: Option<PathBuf>,
    /// Most request units per second to spend; unlimited by default
    #[arg(long, value_name = "RU/S", value_parser = clap::value_parser!(u32).range(1..))]
    max_rus: Option<u32>,
    #[command(flatten)]
    connection: Connection,
}

/// The result, in numbers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Migrated {
    /// The documents that were rewritten.
    documents: u64,
    /// The documents that were read, the rewritten ones a second time.
    read: u64,
    request_units: f64,
}

/// The position of a migration, in a file.
#[derive(Serialize, Deserialize)]
struct Position {
    migration: Migrating,
    cursor: FeedCursor,
}

/// What a migration migrates. The position of another one would omit documents.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Migrating {
    endpoint: String,
    database: String,
    container: String,
    /// The versions of the document types.
    versions: BTreeMap<String, u32>,
}

impl Migrating {
    fn new(connection: &Connection, model: &Model) -> Self {
        let versions = model.documents.iter().filter_map(|shape| {
            let version = shape.version?;
            Some((shape.discriminator.to_owned(), version))
        });
        Self {
            endpoint: connection.shown_endpoint(),
            database: connection.database.clone(),
            container: connection.container.clone(),
            versions: versions.collect(),
        }
    }

    /// Reads the position of this migration, if it was interrupted.
    fn read_position(&self, file: &Path) -> Result<Option<FeedCursor>, Failure> {
        let shown = file.display();
        let text = match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => {
                read.map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?
            }
        };
        let position: Position = serde_json::from_slice(&text).map_err(|error| {
            Failure::usage(format!(
                "{shown} is not the position of a migration: {error}"
            ))
        })?;
        if position.migration != *self {
            return Err(Failure::usage(format!(
                "{shown} is the position of another migration, {}; this one is {self}: name another file, or remove it to begin with the first \
                 document",
                position.migration
            )));
        }
        Ok(Some(position.cursor))
    }
}

pub(crate) async fn run(
    args: &MigrateArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if model.documents.iter().all(|shape| shape.version.is_none()) {
        return Err(Failure::usage(format!(
            "no document type of `{}` has versions; see `#[document(version = 2, upcast(…))]`",
            model.name
        )));
    }
    let migrating = Migrating::new(&args.connection, model);
    let position = match &args.position {
        Some(file) => migrating.read_position(file)?,
        None => None,
    };
    let database = args.connection.database()?;
    let mut migration = model.migration(&database, &args.connection.container, position);
    let mut position = Position {
        cursor: migration.position().clone(),
        migration: migrating,
    };
    let mut migrated = Migrated::default();
    loop {
        let begun = Instant::now();
        let Some(step) = migration.next_step().await? else {
            break;
        };
        migrated.documents += step.migrated;
        migrated.read += step.read;
        migrated.request_units += step.charge;
        if let Some(file) = &args.position {
            position.cursor = migration.position().clone();
            whole_file::replace(file, &position)?;
        }
        console.progress(migrated.to_string())?;
        if let Some(max_rus) = args.max_rus {
            let due = Duration::from_secs_f64(step.charge / f64::from(max_rus));
            tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
        }
    }
    if let Some(file) = args.position.as_deref().filter(|file| file.exists()) {
        fs::remove_file(file)?;
    }
    migrated.request_units = migrated.request_units.ceil();
    console.answer(&migrated)?;
    Ok(Exit::Ok)
}

impl fmt::Display for Migrating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoint,
            database,
            container,
            versions,
        } = self;
        write!(f, "of `{database}/{container}` at {endpoint} to")?;
        for (at, (name, version)) in versions.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma} `{name}` {version}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "migrated {}, read {}, for {:.0} RU",
            counted(self.documents, "document"),
            self.read,
            self.request_units
        )
    }
}
