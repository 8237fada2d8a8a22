//! Connections that read concurrently with the writer, for a store in a directory.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::protocol::ServiceError;
use crate::store::sqlite::open_reader;

/// Concurrent scans; more would only compete for the processor.
const SCANS: usize = 4;

/// Idle connections, and permits for scans.
#[derive(Debug)]
pub(in crate::store) struct Readers {
    file: PathBuf,
    /// `None` when the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
    scans: Semaphore,
}

impl Readers {
    pub(in crate::store) fn new(file: PathBuf) -> Self {
        Self {
            file,
            idle: Mutex::new(Some(Vec::new())),
            scans: Semaphore::new(SCANS),
        }
    }

    /// Runs long work on a thread that may block.
    pub(in crate::store) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let _permit = self.scans.acquire().await.map_err(ServiceError::internal)?;
        tokio::task::spawn_blocking(work)
            .await
            .map_err(ServiceError::internal)?
    }

    /// Returns a connection in a transaction, so that all reads see one snapshot.
    pub(in crate::store) fn take(&self) -> Result<ReadConnection<'_>, ServiceError> {
        let idle = match &mut *self.idle() {
            None => return Err(ServiceError::stopping()),
            Some(idle) => idle.pop(),
        };
        let connection = match idle {
            Some(connection) => connection,
            None => open_reader(&self.file)?,
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        Ok(ReadConnection::Own(OwnConnection {
            readers: self,
            connection: Some(connection),
        }))
    }

    /// Closes idle connections now, and others when they are returned.
    pub(in crate::store) fn close(&self) {
        drop(self.idle().take());
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        // The list is valid between any two statements.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for reads.
#[derive(Debug)]
pub(crate) enum ReadConnection<'a> {
    /// The only connection of a store in memory.
    Shared(MutexGuard<'a, Connection>),
    /// One of the readers.
    Own(OwnConnection<'a>),
}

impl Deref for ReadConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match self {
            Self::Shared(connection) => connection,
            Self::Own(own) => own
                .connection
                .as_ref()
                .expect("the connection is present until the drop"),
        }
    }
}

/// A connection that is returned to the idle connections when it is dropped.
#[derive(Debug)]
pub(crate) struct OwnConnection<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for OwnConnection<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        // A connection whose transaction does not end is closed, which ends the transaction.
        if connection.execute_batch("COMMIT").is_ok()
            && let Some(idle) = &mut *self.readers.idle()
        {
            idle.push(connection);
        }
    }
}
