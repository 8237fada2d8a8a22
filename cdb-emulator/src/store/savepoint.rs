//! Savepoints whose statements are prepared once. Those of `rusqlite` are prepared for every write.

use std::ops::Deref;

use rusqlite::Connection;

use crate::protocol::ServiceError;

/// Changes that are rolled back unless they are committed. Savepoints can be nested.
#[derive(Debug)]
#[must_use = "its changes have to be committed"]
pub(crate) struct Savepoint<'c> {
    connection: &'c Connection,
    is_open: bool,
}

impl<'c> Savepoint<'c> {
    pub(crate) fn begin(connection: &'c Connection) -> Result<Self, ServiceError> {
        execute(connection, "SAVEPOINT request")?;
        Ok(Self {
            connection,
            is_open: true,
        })
    }

    pub(crate) fn commit(mut self) -> Result<(), ServiceError> {
        execute(self.connection, "RELEASE request")?;
        self.is_open = false;
        Ok(())
    }
}

impl Deref for Savepoint<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let rolled_back = execute(self.connection, "ROLLBACK TO request")
            .and_then(|()| execute(self.connection, "RELEASE request"));
        if let Err(error) = rolled_back {
            tracing::warn!(%error, "cannot roll back a write");
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), ServiceError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
