//! Databases, and the creation, replacement and deletion of containers.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::container::Container;
use super::index::policy::{self, Policy};
use super::offers::{self, Offer};
use super::partitions::epk::Version;
use super::partitions::ranges;
use super::rows::history;
use super::version::new_etag;
use crate::protocol::{ServiceError, rid};

/// A database.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    number: i64,
    pub(crate) id: String,
    pub(crate) created: i64,
}

pub(super) fn create(connection: &Connection) -> Result<(), ServiceError> {
    // Older emulators read `generation`.
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS database (id TEXT PRIMARY KEY, created INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS container (
            number INTEGER PRIMARY KEY AUTOINCREMENT, database TEXT NOT NULL, id TEXT NOT NULL,
            definition TEXT NOT NULL, etag TEXT NOT NULL, created INTEGER NOT NULL, ranges TEXT NOT NULL,
            generation INTEGER NOT NULL DEFAULT 0, UNIQUE (database, id));
         CREATE TABLE IF NOT EXISTS sequence (lsn INTEGER NOT NULL);
         INSERT INTO sequence SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM sequence);",
    )?;
    history::create_table(connection)?;
    offers::create_table(connection)
}

impl Database {
    pub(crate) fn create(
        connection: &Connection,
        id: &str,
        now: i64,
    ) -> Result<Self, ServiceError> {
        let added = connection.execute(
            "INSERT OR IGNORE INTO database (id, created) VALUES (?, ?)",
            params![id, now],
        )?;
        if added == 0 {
            return Err(ServiceError::conflict());
        }
        Self::find(connection, id)
    }

    /// Finds a database by its name or resource id.
    pub(crate) fn find(connection: &Connection, id: &str) -> Result<Self, ServiceError> {
        connection
            .prepare_cached("SELECT rowid, id, created FROM database WHERE id = ? OR rowid = ?")?
            .query_row(params![id, rid::database(id)], |row| {
                Ok(Self {
                    number: row.get(0)?,
                    id: row.get(1)?,
                    created: row.get(2)?,
                })
            })
            .optional()?
            .ok_or_else(ServiceError::not_found)
    }

    pub(crate) fn all(connection: &Connection) -> Result<Vec<Self>, ServiceError> {
        let mut statement =
            connection.prepare_cached("SELECT rowid, id, created FROM database ORDER BY id")?;
        let rows = statement.query_map([], |row| {
            Ok(Self {
                number: row.get(0)?,
                id: row.get(1)?,
                created: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(crate) fn delete(connection: &Connection, id: &str) -> Result<(), ServiceError> {
        let database = Self::find(connection, id)?;
        Offer::delete_of(connection, &database.self_link())?;
        for container in Container::all(connection, id)? {
            container.delete(connection)?;
        }
        connection.execute("DELETE FROM database WHERE id = ?", [id])?;
        Ok(())
    }

    /// Returns the resource id.
    pub(crate) fn rid(&self) -> String {
        rid::of_database(self.number)
    }

    /// Returns the `_self` link.
    pub(crate) fn self_link(&self) -> String {
        format!("dbs/{}/", self.rid())
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id, "_rid": self.rid(), "_self": self.self_link(),
            "_etag": "\"0000\"", "_colls": "colls/", "_users": "users/", "_ts": self.created,
        })
    }
}

impl Container {
    pub(crate) fn create(
        connection: &Connection,
        database: &str,
        definition: &Value,
        ranges: u32,
        now: i64,
    ) -> Result<Self, ServiceError> {
        Database::find(connection, database)?;
        let ranges = ranges::evenly(Version::of(&definition["partitionKey"]), ranges.max(1));
        let id = definition["id"].as_str().unwrap_or_default().to_owned();
        let added = connection.execute(
            "INSERT OR IGNORE INTO container (database, id, definition, etag, created, ranges)
             VALUES (?, ?, ?, ?, ?, ?)",
            params![
                database,
                id,
                definition.to_string(),
                new_etag(),
                now,
                serde_json::to_string(&ranges)?
            ],
        )?;
        if added == 0 {
            return Err(ServiceError::conflict());
        }
        let container = Self::find(connection, database, &id)?;
        let table = container.table();
        policy::create_table(connection, &table, container.policy())?;
        policy::create_indexes(connection, &table, container.policy())?;
        Ok(container)
    }

    /// Replaces the definition, which was checked before, and rebuilds the indexes of a changed
    /// policy.
    pub(crate) fn replace(
        &self,
        connection: &Connection,
        definition: &Value,
    ) -> Result<(), ServiceError> {
        connection.execute(
            "UPDATE container SET definition = ?, etag = ? WHERE number = ?",
            params![definition.to_string(), new_etag(), self.number],
        )?;
        let mut replaced = self.clone();
        replaced.definition = definition.clone().into();
        replaced.policy = Policy::of(&definition["indexingPolicy"]).into();
        if replaced.default_ttl() != self.default_ttl() {
            self.update_expiry(connection, replaced.default_ttl())?;
        }
        if replaced.policy() == self.policy() {
            return Ok(());
        }
        replaced.rebuild(connection)
    }

    pub(crate) fn delete(&self, connection: &Connection) -> Result<(), ServiceError> {
        self.forget(connection)?;
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {}", self.table()))?;
        connection.execute("DELETE FROM container WHERE number = ?", [self.number])?;
        Offer::delete_of(connection, &self.self_link())
    }
}
