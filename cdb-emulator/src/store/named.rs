//! Users and permissions: named resources, each below the path of its parent.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::version::new_etag;
use crate::error::ServiceError;

/// A named resource.
#[derive(Clone, Debug)]
pub(crate) struct NamedResource {
    pub(crate) number: i64,
    pub(crate) id: String,
    pub(crate) definition: Value,
    pub(crate) etag: String,
    pub(crate) ts: i64,
}

const COLUMNS: &str = "number, id, definition, etag, ts";

pub(super) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS named_resource (
            number INTEGER PRIMARY KEY AUTOINCREMENT, parent TEXT NOT NULL, id TEXT NOT NULL,
            definition TEXT NOT NULL, etag TEXT NOT NULL, ts INTEGER NOT NULL, UNIQUE (parent, id));",
    )?;
    Ok(())
}

impl NamedResource {
    pub(crate) fn create(
        connection: &Connection,
        parent: &str,
        definition: &Value,
        now: i64,
    ) -> Result<Self, ServiceError> {
        let id = id_of(definition);
        let added = connection.execute(
            "INSERT OR IGNORE INTO named_resource (parent, id, definition, etag, ts) VALUES (?, ?, ?, ?, ?)",
            params![parent, id, definition.to_string(), new_etag(), now],
        )?;
        if added == 0 {
            return Err(ServiceError::conflict());
        }
        Self::find(connection, parent, id)
    }

    pub(crate) fn find(
        connection: &Connection,
        parent: &str,
        id: &str,
    ) -> Result<Self, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM named_resource WHERE parent = ? AND id = ?");
        connection
            .prepare_cached(&sql)?
            .query_row([parent, id], Self::from_row)
            .optional()?
            .ok_or_else(ServiceError::not_found)
    }

    pub(crate) fn all(connection: &Connection, parent: &str) -> Result<Vec<Self>, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM named_resource WHERE parent = ? ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([parent], Self::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Replaces a resource, whose id can change. Its children follow.
    pub(crate) fn replace(
        &self,
        connection: &Connection,
        parent: &str,
        definition: &Value,
        now: i64,
    ) -> Result<Self, ServiceError> {
        let id = id_of(definition);
        if id != self.id && Self::find(connection, parent, id).is_ok() {
            return Err(ServiceError::conflict());
        }
        connection.execute(
            "UPDATE named_resource SET id = ?, definition = ?, etag = ?, ts = ? WHERE number = ?",
            params![id, definition.to_string(), new_etag(), now, self.number],
        )?;
        let (old, new) = (format!("{parent}/{}/", self.id), format!("{parent}/{id}/"));
        connection.execute(
            "UPDATE named_resource SET parent = ?2 || substr(parent, length(?1) + 1)
             WHERE substr(parent, 1, length(?1)) = ?1",
            params![old, new],
        )?;
        Self::find(connection, parent, id)
    }

    pub(crate) fn delete(&self, connection: &Connection, parent: &str) -> Result<(), ServiceError> {
        connection.execute("DELETE FROM named_resource WHERE number = ?", [self.number])?;
        Self::delete_below(connection, &format!("{parent}/{}/", self.id))
    }

    /// Deletes all resources below a path, which ends with a slash.
    pub(super) fn delete_below(connection: &Connection, path: &str) -> Result<(), ServiceError> {
        connection.execute(
            "DELETE FROM named_resource WHERE substr(parent, 1, length(?1)) = ?1",
            [path],
        )?;
        Ok(())
    }

    fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let definition: String = row.get(2)?;
        Ok(Self {
            number: row.get(0)?,
            id: row.get(1)?,
            definition: serde_json::from_str(&definition).unwrap_or_default(),
            etag: row.get(3)?,
            ts: row.get(4)?,
        })
    }
}

fn id_of(definition: &Value) -> &str {
    definition["id"].as_str().unwrap_or_default()
}
