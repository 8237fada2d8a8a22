//! What is kept: SQLite, in memory or in a directory.
//!
//! One table per container, one row per document, and one SQLite index per index of the container's policy, so that what
//! the policy does not serve is slow here too. Acknowledged writes survive the death of the process (write-ahead log);
//! a loss of power can cost the last moments.

pub(crate) mod catalog;
mod documents;
pub(crate) mod indexes;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::error::ServiceError;

pub(crate) use catalog::{Container, Database};
pub(crate) use documents::{StoredDocument, json_path};

/// The whole store. One connection: SQLite writes one at a time anyway, and reads here take microseconds.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens a store, in memory when there is no directory.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, ServiceError> {
        let connection = match directory {
            None => Connection::open_in_memory()?,
            Some(directory) => Connection::open(directory.join("cosmos.sqlite"))?,
        };
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.set_prepared_statement_cache_capacity(256);
        catalog::create(&connection)?;
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// The connection, for one request.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Connection> {
        // A request that panicked has rolled its transaction back.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
