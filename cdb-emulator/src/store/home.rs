//! The directory that holds the data: one process at a time, of a version that knows its form.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::EmulatorError;

/// The form of the data that this version writes. A change of tables raises it, and [`Home::open`] then has to migrate
/// older data.
const SCHEMA: i64 = 1;
/// Marks our files among all that SQLite can open ("cdbe").
const APPLICATION: i64 = 0x6364_6265;

/// A directory that is ours.
#[derive(Debug)]
pub(super) struct Home {
    directory: PathBuf,
    /// Locked as long as it is open; the system gives the lock back when the process dies, however it dies.
    lock: File,
}

impl Home {
    /// Makes the directory and keeps other processes out of it.
    pub(super) fn claim(directory: &Path) -> Result<Self, EmulatorError> {
        let failed = |path: &Path, error| {
            EmulatorError::storage(format_args!(
                "{}: {error}; choose a directory that this user may write",
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

    /// The database.
    pub(super) fn file(&self) -> PathBuf {
        self.directory.join("cosmos.sqlite")
    }

    /// Opens the connection that writes. Nothing is changed in a file that is not ours.
    pub(super) fn open(&self) -> Result<Connection, EmulatorError> {
        let connection = Connection::open(self.file())?;
        self.judge(&connection)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        tune(&connection)?;
        connection.pragma_update(None, "application_id", APPLICATION)?;
        connection.pragma_update(None, "user_version", SCHEMA)?;
        Ok(connection)
    }

    /// Refuses what this version must not write to.
    fn judge(&self, connection: &Connection) -> Result<(), EmulatorError> {
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

    /// Lets others have the directory.
    pub(super) fn release(&self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the data directory stays locked until this process ends");
        }
    }
}

/// Opens a connection that only reads.
pub(super) fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    tune(&connection)?;
    super::keep_statements(&connection)?;
    Ok(connection)
}

fn tune(connection: &Connection) -> rusqlite::Result<()> {
    // 32 MB of pages per connection; the rest is mapped, up to the 2 GB that SQLite allows.
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "mmap_size", 1_i64 << 31)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}
