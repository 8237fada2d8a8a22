//! The data directory: locked by one process at a time, with a schema version.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use super::sqlite::tune;
use super::{catalog, transformation};
use crate::emulator_error::EmulatorError;

/// The schema version that this emulator writes. A change of the tables increments it, and
/// [`DataDir::open`] then has to migrate older data.
const SCHEMA: i64 = 3;
/// Identifies the emulator's files among other SQLite files ("cdbe").
const APPLICATION: i64 = 0x6364_6265;

/// A locked data directory.
#[derive(Debug)]
pub(super) struct DataDir {
    directory: PathBuf,
    /// Locked while it is open; the operating system releases the lock when the process ends in any
    /// way.
    lock: File,
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it against other processes.
    pub(super) fn lock(directory: &Path) -> Result<Self, EmulatorError> {
        let failed = |path: &Path, error| {
            EmulatorError::storage(format_args!(
                "{}: {error}; choose a directory that this user can write",
                path.display()
            ))
        };
        std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        let path = directory.join("cosmos.lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| failed(&path, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                directory: directory.to_owned(),
                lock,
            }),
            Err(TryLockError::WouldBlock) => Err(EmulatorError::InUse {
                directory: directory.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(failed(&path, error)),
        }
    }

    /// Returns the path of the database.
    pub(super) fn file(&self) -> PathBuf {
        self.directory.join("cosmos.sqlite")
    }

    /// Opens the connection of the writer. A file of another application is not changed.
    pub(super) fn open(&self) -> Result<Connection, EmulatorError> {
        let connection = Connection::open(self.file())?;
        self.check(&connection)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        tune(&connection)?;
        migrate(&connection)?;
        connection.pragma_update(None, "application_id", APPLICATION)?;
        connection.pragma_update(None, "user_version", SCHEMA)?;
        Ok(connection)
    }

    /// Rejects files of other applications and of newer versions.
    fn check(&self, connection: &Connection) -> Result<(), EmulatorError> {
        let foreign = || {
            EmulatorError::storage(format_args!(
                "{} is not a database of this emulator; choose another directory",
                self.file().display()
            ))
        };
        let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
            row.get::<_, i64>(0)
        });
        let tables = match tables {
            Ok(tables) => tables,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                return Err(foreign());
            }
            Err(error) => return Err(error.into()),
        };
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (application, found) = (pragma("application_id")?, pragma("user_version")?);
        if tables > 0 && application != APPLICATION {
            return Err(foreign());
        }
        if found > SCHEMA {
            return Err(EmulatorError::Newer {
                directory: self.directory.clone(),
                found,
                known: SCHEMA,
            });
        }
        Ok(())
    }

    /// Unlocks the directory.
    pub(super) fn unlock(&self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the data directory stays locked until this process ends");
        }
    }
}

/// Migrates data of older emulators. Before schema version 2, all partition keys were hashed as in
/// version 2, also those of definitions without a version. Before schema version 3, indexed paths had
/// no columns.
fn migrate(connection: &Connection) -> Result<(), EmulatorError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == 1 && connection.table_exists(None, "container")? {
        connection.execute(
            "UPDATE container SET definition = json_set(definition, '$.partitionKey.version', 2)",
            [],
        )?;
    }
    if matches!(found, 1 | 2) {
        tracing::info!("rebuilding the tables of a data directory that an older emulator wrote");
        let rebuilt =
            catalog::create(connection).and_then(|()| transformation::rebuild(connection));
        rebuilt.map_err(|error| EmulatorError::storage(error.message))?;
    }
    Ok(())
}
