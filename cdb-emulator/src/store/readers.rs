//! Connections that read beside the writer, for a store in a directory.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::home;
use crate::error::ServiceError;

/// Scans that run at once; more would only take the processor from each other.
const SCANS: usize = 4;

/// Idle connections, and the places for scans.
#[derive(Debug)]
pub(super) struct Readers {
    file: PathBuf,
    /// `None` when the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
    scans: Semaphore,
}

impl Readers {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            idle: Mutex::new(Some(Vec::new())),
            scans: Semaphore::new(SCANS),
        }
    }

    /// Carries out work that may take long on a thread that may block.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let _place = self.scans.acquire().await.map_err(ServiceError::internal)?;
        tokio::task::spawn_blocking(work)
            .await
            .map_err(ServiceError::internal)?
    }

    /// A connection in a transaction, so that all that is read is of one moment.
    pub(super) fn take(&self) -> Result<ReadConnection<'_>, ServiceError> {
        let idle = match &mut *self.idle() {
            None => return Err(ServiceError::stopping()),
            Some(idle) => idle.pop(),
        };
        let connection = match idle {
            Some(connection) => connection,
            None => home::open_reader(&self.file)?,
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        Ok(ReadConnection::Own(OwnConnection {
            readers: self,
            connection: Some(connection),
        }))
    }

    /// Closes what is idle now and the others when they come back.
    pub(super) fn close(&self) {
        drop(self.idle().take());
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        // The list is valid between any two statements.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection to read from.
#[derive(Debug)]
pub(crate) enum ReadConnection<'a> {
    /// The one connection of a store in memory.
    Shared(MutexGuard<'a, Connection>),
    /// One of many.
    Own(OwnConnection<'a>),
}

impl Deref for ReadConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match self {
            Self::Shared(connection) => connection,
            Self::Own(own) => own.connection.as_ref().expect("it is there until the drop"),
        }
    }
}

/// A connection that goes back to the others when it is dropped.
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
        // One whose transaction does not end is closed, which ends it.
        if connection.execute_batch("COMMIT").is_ok()
            && let Some(idle) = &mut *self.readers.idle()
        {
            idle.push(connection);
        }
    }
}
