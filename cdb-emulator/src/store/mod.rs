//! What is kept: SQLite, in memory or in a directory.
//!
//! One table per container, one row per document, and one SQLite index per index of the container's policy, so that what
//! the policy does not serve is slow here too. In a directory, a write is acknowledged when the log that holds it is on
//! the disk (`synchronous=FULL`), so it survives the death of the process and the loss of power.

pub(crate) mod catalog;
mod documents;
pub(crate) mod elements;
mod expiry;
mod home;
pub(crate) mod indexes;
pub(crate) mod learned;
pub(crate) mod offers;
pub(crate) mod ranges;
mod readers;
pub(crate) mod rid;
mod transformation;
mod write_queue;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use self::home::Home;
use self::readers::{ReadConnection, Readers};
use self::write_queue::WriteQueue;
use crate::EmulatorError;
use crate::error::ServiceError;

pub(crate) use catalog::{Container, Database};
pub(crate) use documents::{Row, Scan, StoredDocument, json_rank, json_value};

/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 256;

/// What a piece of work does with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Looks at a row or two.
    Glance,
    /// Reads as many rows as it takes.
    Scan,
    /// Writes, or may write.
    Write,
}

/// The whole store. One thread writes, since SQLite writes one at a time anyway. In a directory, readers have
/// connections of their own and see what is committed; in memory all work shares one connection and the writer's thread.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Arc<Mutex<Connection>>,
    queue: WriteQueue,
    readers: Option<Readers>,
    /// Given up last, when nothing can write any more.
    home: Option<Home>,
}

impl Store {
    /// Opens a store, in memory when there is no directory.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, EmulatorError> {
        let home = directory.map(Home::claim).transpose()?;
        let connection = match &home {
            None => open_in_memory()?,
            Some(home) => home.open()?,
        };
        keep_statements(&connection)?;
        catalog::create(&connection).map_err(|error| EmulatorError::storage(error.message))?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(Self {
            queue: WriteQueue::start(connection.clone(), home.is_some())?,
            connection,
            readers: home.as_ref().map(|home| Readers::new(home.file())),
            home,
        })
    }

    /// Carries out work that uses the store, where it waits for nobody who runs on this thread. Work that writes has
    /// been committed when this returns.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        match (lane, &self.readers) {
            (Lane::Write, _) | (_, None) => self.queue.run(work).await,
            (Lane::Glance, Some(_)) => work(),
            (Lane::Scan, Some(readers)) => readers.run(work).await,
        }
    }

    /// Has the writer give a path an index, when it comes to it.
    pub(crate) fn learn(&self, container: Container, path: String) {
        let connection = self.connection.clone();
        self.queue.send(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let savepoint = connection.savepoint()?;
            container.learn(&savepoint, &path)?;
            Ok(savepoint.commit()?)
        });
    }

    /// The connection that writes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Connection> {
        // Work that panicked has rolled its savepoint back.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to read from: one moment of the store, until it is dropped.
    pub(crate) fn read(&self) -> Result<ReadConnection<'_>, ServiceError> {
        match &self.readers {
            None => Ok(ReadConnection::Shared(self.lock())),
            Some(readers) => readers.take(),
        }
    }

    /// Ends the writer after what it has begun, closes the files, and lets another process have the directory.
    pub(crate) fn close(&self) {
        self.queue.close();
        let (Some(home), Some(readers)) = (&self.home, &self.readers) else {
            return;
        };
        readers.close();
        // Requests that still run may hold the lock for a moment; the files must not change afterwards.
        if let Ok(nothing) = Connection::open_in_memory() {
            *self.lock() = nothing;
        }
        home.release();
    }
}

/// Opens a store that is gone with its process, on pages of twice the usual size. Whenever SQLite has put pages of a
/// tree in order, the commit goes through the table of all pages in memory (`pcache1TruncateUnsafe`), of which there are
/// half as many like this. Still larger ones make every write dearer, which copies each page that it changes.
fn open_in_memory() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "page_size", 8192)?;
    Ok(connection)
}

/// Has a connection keep the statements that it has prepared, as they are. Without the second setting SQLite prepares one
/// anew whenever it is executed with other values, which may have another plan; here the plan is not SQLite's to choose.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
