//! Offers: how many request units a container, or a database that shares them, has per second.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};

use super::version::new_etag;
use crate::error::ServiceError;

/// Who chose a throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody.
    Default,
    /// Whoever created the resource.
    Creation,
    /// Whoever replaced the offer, so it limits.
    Replacement,
}

impl Origin {
    fn from_column(number: i64) -> Self {
        match number {
            0 => Self::Default,
            1 => Self::Creation,
            _ => Self::Replacement,
        }
    }
}

/// The throughput of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    number: i64,
    /// The `_self` of what it is for.
    resource: String,
    resource_rid: String,
    content: Value,
    pub(crate) etag: String,
    changed: i64,
    pub(crate) origin: Origin,
}

const COLUMNS: &str = "number, resource, resource_rid, content, etag, changed, origin";

pub(super) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS offer (
            number INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT NOT NULL UNIQUE, resource_rid TEXT NOT NULL,
            content TEXT NOT NULL, etag TEXT NOT NULL, changed INTEGER NOT NULL, origin INTEGER NOT NULL);",
    )?;
    Ok(())
}

impl Offer {
    /// Gives a resource, named by `_self` and `_rid`, its throughput.
    pub(crate) fn create(
        connection: &Connection,
        (resource, rid): (&str, &str),
        (content, origin): (&Value, Origin),
        now: i64,
    ) -> Result<(), ServiceError> {
        connection.execute(
            "INSERT INTO offer (resource, resource_rid, content, etag, changed, origin) VALUES (?, ?, ?, ?, ?, ?)",
            params![
                resource,
                rid,
                content.to_string(),
                new_etag(),
                now,
                origin as i64
            ],
        )?;
        Ok(())
    }

    /// All of them.
    pub(crate) fn all(connection: &Connection) -> Result<Vec<Self>, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM offer ORDER BY number");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([], Self::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Whether one was replaced, so that it limits.
    pub(crate) fn any_replaced(connection: &Connection) -> Result<bool, ServiceError> {
        let mut statement = connection.prepare("SELECT 1 FROM offer WHERE origin = ?")?;
        Ok(statement.exists([Origin::Replacement as i64])?)
    }

    /// The one of a resource that is named by its `_self`.
    pub(crate) fn of(
        connection: &Connection,
        resource: &str,
    ) -> Result<Option<Self>, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM offer WHERE resource = ?");
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row([resource], Self::from_row).optional()?)
    }

    /// The one with this resource id of its own, which requests name in lower case to sign it.
    pub(crate) fn find(connection: &Connection, rid: &str) -> Result<Self, ServiceError> {
        let all = Self::all(connection)?;
        let found = all.into_iter().find(|offer| offer.rid() == rid);
        found.ok_or_else(ServiceError::not_found)
    }

    /// Changes the throughput. From here on it limits.
    pub(crate) fn replace(
        &self,
        connection: &Connection,
        content: &Value,
        now: i64,
    ) -> Result<(), ServiceError> {
        connection.execute(
            "UPDATE offer SET content = ?, etag = ?, changed = ?, origin = ? WHERE number = ?",
            params![
                content.to_string(),
                new_etag(),
                now,
                Origin::Replacement as i64,
                self.number
            ],
        )?;
        Ok(())
    }

    /// Removes the offers of a resource and of all that is in it.
    pub(crate) fn delete_of(connection: &Connection, resource: &str) -> Result<(), ServiceError> {
        connection.execute(
            "DELETE FROM offer WHERE substr(resource, 1, length(?1)) = ?1",
            [resource],
        )?;
        Ok(())
    }

    /// Request units per second, at most.
    pub(crate) fn per_second(&self) -> u32 {
        let autoscale = &self.content["offerAutopilotSettings"]["maxThroughput"];
        let units = autoscale
            .as_u64()
            .or_else(|| self.content["offerThroughput"].as_u64());
        units
            .and_then(|units| u32::try_from(units).ok())
            .unwrap_or(u32::MAX)
    }

    /// Four characters, as offers have them.
    fn rid(&self) -> String {
        format!("{:04}", self.number)
    }

    pub(crate) fn to_json(&self) -> Value {
        let rid = self.rid();
        json!({
            "id": rid, "_rid": rid, "_self": format!("offers/{rid}/"), "_etag": self.etag, "_ts": self.changed,
            "resource": self.resource, "offerResourceId": self.resource_rid, "offerType": "Invalid",
            "offerVersion": "V2", "content": self.content,
        })
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let content: String = row.get(3)?;
        Ok(Self {
            number: row.get(0)?,
            resource: row.get(1)?,
            resource_rid: row.get(2)?,
            content: serde_json::from_str(&content).unwrap_or_default(),
            etag: row.get(4)?,
            changed: row.get(5)?,
            origin: Origin::from_column(row.get(6)?),
        })
    }
}
