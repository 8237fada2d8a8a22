//! Versions of documents that recent writes replaced or deleted, for reads from lagging replicas.
//! The table exists once a replica has lagged.

use rusqlite::{Connection, params};

use crate::protocol::ServiceError;
use crate::store::container::Container;
use crate::store::index::columns::PathKeys;

/// The columns of a document.
const COLUMNS: &str = "pk, id, epk, etag, lsn, ts, expires, body";

/// Creates the table if it is missing, and removes all versions.
pub(crate) fn reset_versions(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS version (
            container INTEGER NOT NULL, pk TEXT NOT NULL, id TEXT NOT NULL, epk TEXT NOT NULL, etag TEXT NOT NULL,
            lsn INTEGER NOT NULL, ts INTEGER NOT NULL, expires INTEGER, replaced INTEGER NOT NULL, body TEXT NOT NULL,
            PRIMARY KEY (container, pk, id, lsn, replaced)) WITHOUT ROWID;
         CREATE INDEX IF NOT EXISTS version_replaced ON version (replaced);
         DELETE FROM version;",
    )?;
    Ok(())
}

/// Removes the versions that were replaced before an LSN.
pub(crate) fn remove_versions(connection: &Connection, oldest: i64) -> Result<(), ServiceError> {
    connection
        .prepare_cached("DELETE FROM version WHERE replaced < ?")?
        .execute([oldest])?;
    Ok(())
}

impl Container {
    /// Keeps the current version of a document, which the write with this LSN replaces or deletes.
    pub(crate) fn keep_version(
        &self,
        connection: &Connection,
        pk: &str,
        id: &str,
        lsn: i64,
    ) -> Result<(), ServiceError> {
        let sql = format!(
            "INSERT OR IGNORE INTO version (container, replaced, {COLUMNS})
             SELECT ?, ?, {COLUMNS} FROM document_{} WHERE pk = ? AND id = ?",
            self.number
        );
        connection
            .prepare_cached(&sql)?
            .execute(params![self.number, lsn, pk, id])?;
        Ok(())
    }

    /// Returns the container as it was at an LSN.
    pub(crate) fn at(&self, lsn: i64) -> Self {
        let mut at = self.clone();
        at.snapshot = Some(lsn);
        at
    }

    /// Returns the table that reads use, as an SQL expression.
    pub(in crate::store) fn source(&self) -> String {
        self.source_with("", "")
    }

    /// Returns the table that reads use, with the columns of indexed paths.
    pub(in crate::store) fn indexed_source(&self) -> String {
        let (mut stored, mut extracted) = (String::new(), String::new());
        if self.snapshot.is_some() {
            for column in self.policy().columns() {
                let found = PathKeys::in_body(column.path.clone());
                stored.extend([", ", &column.rank, ", ", &column.value]);
                extracted.extend([", ", &found.rank, ", ", &found.value]);
            }
        }
        self.source_with(&stored, &extracted)
    }

    /// Returns the table that reads use, with columns of documents and of replaced versions.
    fn source_with(&self, stored: &str, extracted: &str) -> String {
        let number = self.number;
        let Some(lsn) = self.snapshot else {
            return format!("document_{number}");
        };
        format!(
            "(SELECT {COLUMNS}{stored} FROM document_{number} WHERE lsn <= {lsn} UNION ALL
              SELECT {COLUMNS}{extracted} FROM version
              WHERE container = {number} AND lsn <= {lsn} AND replaced > {lsn})"
        )
    }
}
