//! A container, its definition and its physical partitions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::index::policy::Policy;
use super::partitions::epk::Version;
use super::partitions::ranges::{self, PhysicalRange};
use crate::protocol::ServiceError;
use crate::protocol::rid::{self, Inside};

/// A container.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) number: i64,
    /// The number of its database.
    pub(crate) database: i64,
    /// The definition, with defaults.
    pub(crate) definition: Arc<Value>,
    pub(crate) etag: String,
    pub(crate) created: i64,
    pub(crate) ranges: Vec<PhysicalRange>,
    /// The indexing policy.
    pub(super) policy: Arc<Policy>,
    /// The LSN of the state that reads see; `None` for the newest state.
    pub(super) snapshot: Option<i64>,
}

impl Container {
    /// Returns the paths of the partition key.
    pub(crate) fn partition_key_paths(&self) -> Vec<String> {
        strings(&self.definition["partitionKey"]["paths"])
    }

    /// Returns the version of the partition key.
    pub(crate) fn key_version(&self) -> Version {
        Version::of(&self.definition["partitionKey"])
    }

    /// Returns the effective partition key of a partition key.
    pub(crate) fn epk(&self, key: &[Option<Value>]) -> String {
        self.key_version().effective_partition_key(key)
    }

    /// Returns the time to live in seconds of documents without a `ttl`; `None` when expiry is off.
    pub(crate) fn default_ttl(&self) -> Option<i64> {
        self.definition["defaultTtl"].as_i64()
    }

    /// Returns the unique keys, each as a list of paths.
    pub(crate) fn unique_keys(&self) -> Vec<Vec<String>> {
        let keys = self.definition["uniqueKeyPolicy"]["uniqueKeys"].as_array();
        keys.map(|keys| keys.iter().map(|key| strings(&key["paths"])).collect())
            .unwrap_or_default()
    }

    /// Returns the indexing policy.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the name of the table of documents.
    pub(super) fn table(&self) -> String {
        format!("document_{}", self.number)
    }

    /// Finds a container by the names or the resource ids of database and container.
    pub(crate) fn find(
        connection: &Connection,
        database: &str,
        id: &str,
    ) -> Result<Self, ServiceError> {
        let number = rid::database(database).and_then(|_| rid::container(id));
        let sql = format!(
            "SELECT {COLUMNS} FROM container WHERE (database = ? AND id = ?) OR number = ?"
        );
        connection
            .prepare_cached(&sql)?
            .query_row(params![database, id, number], Self::from_row)
            .optional()?
            .ok_or_else(ServiceError::owner_not_found)
    }

    pub(crate) fn all(connection: &Connection, database: &str) -> Result<Vec<Self>, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM container WHERE database = ? ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([database], Self::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn by_number(connection: &Connection, number: i64) -> Result<Self, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM container WHERE number = ?");
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row([number], Self::from_row)?)
    }

    fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let etag: String = row.get(2)?;
        let Definition { json, policy } = Definition::parsed(&etag, row.get_ref(1)?.as_str()?);
        Ok(Self {
            number: row.get(0)?,
            definition: json,
            policy,
            etag,
            created: row.get(3)?,
            ranges: ranges::from_column(row.get_ref(4)?),
            database: row.get(5)?,
            snapshot: None,
        })
    }

    /// Returns the resource id.
    pub(crate) fn rid(&self) -> String {
        rid::of_container(self.database, self.number)
    }

    /// Returns the resource id of a document or range in this container.
    pub(crate) fn rid_inside(&self, what: Inside) -> String {
        rid::inside(self.database, self.number, what)
    }

    /// Returns the `_self` link.
    pub(crate) fn self_link(&self) -> String {
        format!(
            "dbs/{}/colls/{}/",
            rid::of_database(self.database),
            self.rid()
        )
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut body = Value::clone(&self.definition);
        for (name, default) in defaults() {
            if body[name].is_null() {
                body[name] = default;
            }
        }
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

    /// Returns the physical partition of an effective partition key.
    pub(crate) fn range_of(&self, epk: &str) -> Option<&PhysicalRange> {
        self.ranges.iter().find(|range| range.holds(epk))
    }

    /// Finds a physical partition by its id.
    pub(crate) fn range(&self, id: &str) -> Result<&PhysicalRange, ServiceError> {
        self.ranges
            .iter()
            .find(|range| range.id == id)
            .ok_or_else(ServiceError::range_gone)
    }

    /// Replaces a physical partition by two halves and returns their ids. No documents move,
    /// because a physical partition is only a range of hashes here.
    pub(crate) fn split(
        &self,
        connection: &Connection,
        id: &str,
    ) -> Result<[String; 2], ServiceError> {
        let number = ranges::next_number(&self.ranges);
        let ranges = ranges::split(self.key_version(), &self.ranges, id)?;
        self.set_ranges(connection, &ranges)?;
        Ok([number.to_string(), (number + 1).to_string()])
    }

    /// Replaces two neighbouring physical partitions by one and returns its id.
    pub(crate) fn merge(
        &self,
        connection: &Connection,
        ids: [&str; 2],
    ) -> Result<String, ServiceError> {
        let ranges = ranges::merge(&self.ranges, ids)?;
        self.set_ranges(connection, &ranges)?;
        Ok(ranges::next_number(&self.ranges).to_string())
    }

    fn set_ranges(
        &self,
        connection: &Connection,
        ranges: &[PhysicalRange],
    ) -> Result<(), ServiceError> {
        connection.execute(
            "UPDATE container SET ranges = ? WHERE number = ?",
            params![serde_json::to_string(ranges)?, self.number],
        )?;
        Ok(())
    }
}

/// Returns the properties of a definition that the service adds.
fn defaults() -> [(&'static str, Value); 2] {
    let conflicts = json!({
        "mode": "LastWriterWins", "conflictResolutionPath": "/_ts", "conflictResolutionProcedure": "",
    });
    let geography = json!({ "type": "Geography" });
    [
        ("conflictResolutionPolicy", conflicts),
        ("geospatialConfig", geography),
    ]
}

thread_local! {
    /// Definitions by the ETag of their container, with their text. Every request reads its container.
    static PARSED: RefCell<HashMap<String, (String, Definition)>> = RefCell::default();
}

/// The most parsed definitions that a thread keeps.
const MOST_PARSED: usize = 64;

/// A definition, parsed.
#[derive(Clone)]
struct Definition {
    json: Arc<Value>,
    policy: Arc<Policy>,
}

impl Definition {
    /// Parses a definition, unless this thread has parsed it before.
    fn parsed(etag: &str, text: &str) -> Self {
        PARSED.with_borrow_mut(|known| {
            if let Some((_, found)) = known.get(etag).filter(|(known, _)| known == text) {
                return found.clone();
            }
            if known.len() == MOST_PARSED {
                known.clear();
            }
            let json: Value = serde_json::from_str(text).unwrap_or_default();
            let parsed = Self {
                policy: Arc::new(Policy::of(&json["indexingPolicy"])),
                json: Arc::new(json),
            };
            known.insert(etag.to_owned(), (text.to_owned(), parsed.clone()));
            parsed
        })
    }
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The columns of a container, in the order in which [`Container::from_row`] reads them.
const COLUMNS: &str = "number, definition, etag, created, ranges,
    (SELECT rowid FROM database WHERE database.id = container.database)";
