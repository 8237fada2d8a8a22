//! Databases, containers and their physical partitions.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::offers::{self, Offer};
use super::ranges::{self, PhysicalRange};
use super::rid::{self, Inside};
use super::transformation;
use super::{elements, indexes};
use crate::error::ServiceError;

/// A database.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    number: i64,
    pub(crate) id: String,
    pub(crate) created: i64,
}

/// A container.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) number: i64,
    /// The number of its database.
    pub(crate) database: i64,
    /// The definition as it was sent.
    pub(crate) definition: Value,
    pub(crate) etag: String,
    pub(crate) created: i64,
    pub(crate) ranges: Vec<PhysicalRange>,
    /// The policy whose indexes are in use while those of the present one are built.
    pub(super) former: Option<Value>,
    /// Which set of indexes is in use; part of their names.
    generation: i64,
}

impl Container {
    /// Paths of the partition key.
    pub(crate) fn partition_key_paths(&self) -> Vec<String> {
        strings(&self.definition["partitionKey"]["paths"])
    }

    /// Seconds to live of a document without a `ttl` of its own; `None` when expiry is off.
    pub(crate) fn default_ttl(&self) -> Option<i64> {
        self.definition["defaultTtl"].as_i64()
    }

    /// The sets of paths that must be unique.
    pub(crate) fn unique_keys(&self) -> Vec<Vec<String>> {
        let keys = self.definition["uniqueKeyPolicy"]["uniqueKeys"].as_array();
        keys.map(|keys| keys.iter().map(|key| strings(&key["paths"])).collect())
            .unwrap_or_default()
    }

    /// The indexing policy.
    pub(crate) fn policy(&self) -> &Value {
        &self.definition["indexingPolicy"]
    }

    /// The policies that must all serve a sort: the present one, and the one before while its indexes are in use.
    pub(crate) fn serving_policies(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(self.policy()).chain(&self.former)
    }

    /// The policy whose indexes are in use.
    pub(crate) fn indexed_policy(&self) -> &Value {
        self.former.as_ref().unwrap_or_else(|| self.policy())
    }

    /// What the names of its indexes begin with.
    pub(crate) fn index_prefix(&self) -> String {
        indexes::prefix(self.number, self.generation)
    }

    /// How far its indexes are, in percent; 100 when they are those of its policy.
    pub(crate) fn index_progress(&self, connection: &Connection) -> Result<i64, ServiceError> {
        transformation::progress(connection, self.number)
    }
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn create(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS database (id TEXT PRIMARY KEY, created INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS container (
            number INTEGER PRIMARY KEY AUTOINCREMENT, database TEXT NOT NULL, id TEXT NOT NULL,
            definition TEXT NOT NULL, etag TEXT NOT NULL, created INTEGER NOT NULL, ranges TEXT NOT NULL,
            generation INTEGER NOT NULL DEFAULT 0, UNIQUE (database, id));
         CREATE TABLE IF NOT EXISTS sequence (lsn INTEGER NOT NULL);
         INSERT INTO sequence SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM sequence);",
    )?;
    transformation::create_table(connection)?;
    offers::create_table(connection)
}

/// The next number of the log: every write gets one, all writes of a batch the same.
pub(crate) fn next_lsn(connection: &Connection) -> Result<i64, ServiceError> {
    Ok(connection
        .prepare_cached("UPDATE sequence SET lsn = lsn + 1 RETURNING lsn")?
        .query_row([], |row| row.get(0))?)
}

/// The last number of the log.
pub(crate) fn last_lsn(connection: &Connection) -> Result<i64, ServiceError> {
    Ok(connection
        .prepare_cached("SELECT lsn FROM sequence")?
        .query_row([], |row| row.get(0))?)
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

    pub(crate) fn find(connection: &Connection, id: &str) -> Result<Self, ServiceError> {
        connection
            .prepare_cached("SELECT rowid, id, created FROM database WHERE id = ?")?
            .query_row([id], |row| {
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

    /// Its resource id.
    pub(crate) fn rid(&self) -> String {
        rid::of_database(self.number)
    }

    /// Its `_self`.
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

/// The columns of a container, in the order in which [`Container::from_row`] reads them.
const COLUMNS: &str = "number, definition, etag, created, ranges,
    (SELECT rowid FROM database WHERE database.id = container.database),
    (SELECT former FROM transformation WHERE transformation.container = container.number), generation";

impl Container {
    pub(crate) fn create(
        connection: &Connection,
        database: &str,
        definition: &Value,
        ranges: u32,
        now: i64,
    ) -> Result<Self, ServiceError> {
        Database::find(connection, database)?;
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
                serde_json::to_string(&ranges::evenly(ranges.max(1)))?
            ],
        )?;
        if added == 0 {
            return Err(ServiceError::conflict());
        }
        let container = Self::find(connection, database, &id)?;
        let table = format!("document_{}", container.number);
        let prefix = container.index_prefix();
        indexes::create_table(connection, &table, &prefix, container.policy())?;
        Ok(container)
    }

    pub(crate) fn find(
        connection: &Connection,
        database: &str,
        id: &str,
    ) -> Result<Self, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM container WHERE database = ? AND id = ?");
        connection
            .prepare_cached(&sql)?
            .query_row([database, id], Self::from_row)
            .optional()?
            .ok_or_else(ServiceError::owner_not_found)
    }

    pub(crate) fn all(connection: &Connection, database: &str) -> Result<Vec<Self>, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM container WHERE database = ? ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([database], Self::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let definition: String = row.get(1)?;
        Ok(Self {
            number: row.get(0)?,
            definition: serde_json::from_str(&definition).unwrap_or_default(),
            etag: row.get(2)?,
            created: row.get(3)?,
            ranges: ranges::from_column(row.get_ref(4)?),
            database: row.get(5)?,
            former: row
                .get::<_, Option<String>>(6)?
                .and_then(|policy| serde_json::from_str(&policy).ok()),
            generation: row.get(7)?,
        })
    }

    /// Replaces the definition, which was checked. The indexes follow a new policy by and by.
    pub(crate) fn replace(
        &self,
        connection: &Connection,
        definition: &Value,
    ) -> Result<(), ServiceError> {
        connection.execute(
            "UPDATE container SET definition = ?, etag = ? WHERE number = ?",
            params![definition.to_string(), new_etag(), self.number],
        )?;
        let replaced = Self {
            definition: definition.clone(),
            ..self.clone()
        };
        if replaced.default_ttl() != self.default_ttl() {
            self.reckon_expiry(connection, replaced.default_ttl())?;
        }
        if replaced.policy() == self.policy() {
            return Ok(());
        }
        transformation::begin(connection, self, replaced.policy())
    }

    pub(crate) fn delete(&self, connection: &Connection) -> Result<(), ServiceError> {
        transformation::abandon(connection, self.number)?;
        elements::forget(connection, &self.index_prefix())?;
        connection.execute_batch(&format!("DROP TABLE IF EXISTS document_{}", self.number))?;
        connection.execute("DELETE FROM container WHERE number = ?", [self.number])?;
        Offer::delete_of(connection, &self.self_link())
    }

    /// Its resource id.
    pub(crate) fn rid(&self) -> String {
        rid::of_container(self.numbers())
    }

    /// The resource id of something in it.
    pub(crate) fn rid_inside(&self, what: Inside) -> String {
        rid::inside(self.numbers(), what)
    }

    fn numbers(&self) -> (i64, i64) {
        (self.database, self.number)
    }

    /// Its `_self`.
    pub(crate) fn self_link(&self) -> String {
        format!(
            "dbs/{}/colls/{}/",
            rid::of_database(self.database),
            self.rid()
        )
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut body = self.definition.clone();
        body["_rid"] = self.rid().into();
        body["_self"] = self.self_link().into();
        body["_etag"] = self.etag.clone().into();
        body["_ts"] = self.created.into();
        body["_docs"] = "docs/".into();
        body["_sprocs"] = "sprocs/".into();
        body["_triggers"] = "triggers/".into();
        body["_udfs"] = "udfs/".into();
        body["_conflicts"] = "conflicts/".into();
        body
    }
}

/// A version that was never given before.
pub(crate) fn new_etag() -> String {
    format!("\"{}\"", uuid::Uuid::new_v4())
}
