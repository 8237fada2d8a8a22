//! An open store: its connections, the thread that writes, and what closes them.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::data_dir::DataDir;
use super::error::OpenError;
use super::lanes::readers::{ReadConnection, Readers};
use super::lanes::write_queue::WriteQueue;
use super::{catalog, sqlite};
use crate::protocol::ServiceError;

/// The kind of access that a piece of work needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Reads single rows.
    Point,
    /// Reads any number of rows.
    Scan,
    /// Writes, or may write.
    Write,
}

/// Maximum time for the work of the writer when the store is closed.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The store. One thread writes, because SQLite allows one writer at a time. In a directory,
/// readers have connections of their own and see committed data. In memory, all work shares the
/// connection and the thread of the writer.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Arc<Mutex<Connection>>,
    queue: WriteQueue,
    readers: Option<Readers>,
    /// Released last, after the writer has stopped.
    data_dir: Option<DataDir>,
}

impl Store {
    /// Opens a store in memory without a thread: callers run their work themselves, in the order of
    /// their calls.
    pub(crate) fn in_place() -> Result<Self, OpenError> {
        let connection = prepared(sqlite::open_in_memory()?)?;
        Ok(Self {
            queue: WriteQueue::InPlace,
            connection,
            readers: None,
            data_dir: None,
        })
    }

    /// Opens a store in a directory, or in memory when `directory` is `None`.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, OpenError> {
        let data_dir = directory.map(DataDir::lock).transpose()?;
        let connection = match &data_dir {
            None => sqlite::open_in_memory()?,
            Some(data_dir) => data_dir.open()?,
        };
        let connection = prepared(connection)?;
        Ok(Self {
            queue: WriteQueue::start(connection.clone(), data_dir.is_some())?,
            connection,
            readers: data_dir.as_ref().map(|dir| Readers::new(dir.file())),
            data_dir,
        })
    }

    /// Runs work that uses the store; long work runs on another thread. Writes are committed when this
    /// returns.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        match (lane, &self.readers) {
            (Lane::Write, _) | (_, None) => self.queue.run(work).await,
            (Lane::Point, Some(_)) => work(),
            (Lane::Scan, Some(readers)) => readers.run(work).await,
        }
    }

    /// Locks the connection of the writer.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Connection> {
        // The savepoint of work that panicked was rolled back.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection for reads. It shows one snapshot of the store until it is dropped.
    pub(crate) fn read(&self) -> Result<ReadConnection<'_>, ServiceError> {
        match &self.readers {
            None => Ok(ReadConnection::Shared(self.lock())),
            Some(readers) => readers.take(),
        }
    }

    /// Stops the writer after the queued work, closes the files, and unlocks the directory. If the
    /// writer still works after `limit`, the files stay open and the directory locked, as it may
    /// write.
    pub(crate) fn close(&self, limit: Duration) {
        if !self.queue.close(limit) {
            return;
        }
        let (Some(data_dir), Some(readers)) = (&self.data_dir, &self.readers) else {
            return;
        };
        readers.close();
        // Replacing the connection closes the files; requests in progress may hold the lock for a
        // moment.
        if let Ok(empty) = Connection::open_in_memory() {
            *self.lock() = empty;
        }
        data_dir.unlock();
    }
}

fn prepared(connection: Connection) -> Result<Arc<Mutex<Connection>>, OpenError> {
    sqlite::cache_statements(&connection)?;
    catalog::create(&connection).map_err(|error| OpenError::storage(error.message))?;
    Ok(Arc::new(Mutex::new(connection)))
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close(CLOSE_TIMEOUT);
    }
}
