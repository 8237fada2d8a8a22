//! Offers: the throughput of containers, and of databases that share it.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};

use super::version::new_etag;
use crate::protocol::ServiceError;

/// The origin of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The default.
    Default,
    /// The request that created the resource.
    Creation,
    /// The replacement of the offer, which is therefore enforced.
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

/// The offer of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    number: i64,
    /// The `_self` link of the resource.
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

/// An offer before it is stored.
#[derive(Debug)]
pub(crate) struct NewOffer<'a> {
    /// The `_self` link of the resource.
    pub(crate) resource: &'a str,
    /// The `_rid` of the resource.
    pub(crate) rid: &'a str,
    pub(crate) content: &'a Value,
    pub(crate) origin: Origin,
}

impl Offer {
    /// Creates the offer of a resource.
    pub(crate) fn create(
        connection: &Connection,
        offer: &NewOffer<'_>,
        now: i64,
    ) -> Result<(), ServiceError> {
        connection.execute(
            "INSERT INTO offer (resource, resource_rid, content, etag, changed, origin) VALUES (?, ?, ?, ?, ?, ?)",
            params![
                offer.resource,
                offer.rid,
                offer.content.to_string(),
                new_etag(),
                now,
                offer.origin as i64
            ],
        )?;
        Ok(())
    }

    /// Returns all offers.
    pub(crate) fn all(connection: &Connection) -> Result<Vec<Self>, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM offer ORDER BY number");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([], Self::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns whether any offer was replaced, and is therefore enforced.
    pub(crate) fn any_replaced(connection: &Connection) -> Result<bool, ServiceError> {
        let mut statement = connection.prepare("SELECT 1 FROM offer WHERE origin = ?")?;
        Ok(statement.exists([Origin::Replacement as i64])?)
    }

    /// Finds the offer of a resource by its `_self`.
    pub(crate) fn of(
        connection: &Connection,
        resource: &str,
    ) -> Result<Option<Self>, ServiceError> {
        let sql = format!("SELECT {COLUMNS} FROM offer WHERE resource = ?");
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row([resource], Self::from_row).optional()?)
    }

    /// Finds an offer by its own resource id.
    pub(crate) fn find(connection: &Connection, rid: &str) -> Result<Self, ServiceError> {
        let all = Self::all(connection)?;
        let found = all.into_iter().find(|offer| offer.rid() == rid);
        found.ok_or_else(ServiceError::not_found)
    }

    /// Replaces the offer. From now on it is enforced.
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

    /// Deletes the offers of a resource and of its children.
    pub(crate) fn delete_of(connection: &Connection, resource: &str) -> Result<(), ServiceError> {
        connection.execute(
            "DELETE FROM offer WHERE substr(resource, 1, length(?1)) = ?1",
            [resource],
        )?;
        Ok(())
    }

    /// Returns the maximum throughput in request units per second.
    pub(crate) fn per_second(&self) -> u32 {
        let autoscale = &self.content["offerAutopilotSettings"]["maxThroughput"];
        let units = autoscale
            .as_u64()
            .or_else(|| self.content["offerThroughput"].as_u64());
        units
            .and_then(|units| u32::try_from(units).ok())
            .unwrap_or(u32::MAX)
    }

    /// Returns the resource id, which has four characters like on the service.
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
