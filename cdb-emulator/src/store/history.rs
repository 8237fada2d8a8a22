//! The change feed of all versions and deletes, for containers with a `changeFeedPolicy`.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params, params_from_iter};
use serde_json::{Value, json};

use super::container::Container;
use crate::error::ServiceError;

/// A write in the history.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) operation: &'static str,
    pub(crate) pk: &'a str,
    pub(crate) epk: &'a str,
    pub(crate) id: &'a str,
    pub(crate) lsn: i64,
    pub(crate) ts: i64,
    /// The LSN of the version that the write replaced or deleted.
    pub(crate) previous_lsn: Option<i64>,
    /// The document after the write.
    pub(crate) current: Option<&'a str>,
}

pub(super) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS history (
            number INTEGER PRIMARY KEY AUTOINCREMENT, container INTEGER NOT NULL, lsn INTEGER NOT NULL, ts INTEGER NOT NULL,
            pk TEXT NOT NULL, epk TEXT NOT NULL, body TEXT NOT NULL);
         CREATE INDEX IF NOT EXISTS history_lsn ON history (container, lsn);",
    )?;
    Ok(())
}

impl Container {
    /// Returns the minutes for which all versions and deletes are kept; `None` when they are not.
    pub(crate) fn retention(&self) -> Option<i64> {
        let minutes = self.definition["changeFeedPolicy"]["retentionDuration"].as_i64();
        minutes.filter(|minutes| *minutes > 0)
    }

    /// Adds a write to the history, if the container keeps one, and removes old writes.
    pub(crate) fn keep(
        &self,
        connection: &Connection,
        change: &Change<'_>,
    ) -> Result<(), ServiceError> {
        let Some(minutes) = self.retention() else {
            return Ok(());
        };
        let body = self.entry(change)?.to_string();
        connection
            .prepare_cached(
                "INSERT INTO history (container, lsn, ts, pk, epk, body) VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                self.number,
                change.lsn,
                change.ts,
                change.pk,
                change.epk,
                body
            ])?;
        connection
            .prepare_cached("DELETE FROM history WHERE container = ? AND ts < ?")?
            .execute(params![self.number, change.ts - minutes * 60])?;
        Ok(())
    }

    /// Returns a write in the form of the feed (change-feed-modes: parse the response object).
    fn entry(&self, change: &Change<'_>) -> Result<Value, ServiceError> {
        let mut metadata = json!({
            "operationType": change.operation, "lsn": change.lsn, "crts": change.ts,
            "previousImageLSN": change.previous_lsn.unwrap_or_default(),
        });
        if let Some(current) = change.current {
            let current: Value = serde_json::from_str(current)?;
            return Ok(json!({ "current": current, "metadata": metadata }));
        }
        metadata["id"] = change.id.into();
        metadata["timeToLiveExpired"] = false.into();
        let values: Vec<Value> = serde_json::from_str(change.pk)?;
        let mut key = json!({});
        for (path, value) in self.partition_key_paths().iter().zip(values) {
            key[path.trim_start_matches('/')] = value;
        }
        metadata["partitionKey"] = key;
        Ok(json!({ "metadata": metadata }))
    }

    /// Deletes the history.
    pub(super) fn forget(&self, connection: &Connection) -> Result<(), ServiceError> {
        connection.execute("DELETE FROM history WHERE container = ?", [self.number])?;
        Ok(())
    }

    /// Returns the writes after `lsn` that meet a condition, oldest first, each with its LSN.
    pub(crate) fn history(
        &self,
        connection: &Connection,
        lsn: i64,
        (condition, parameters): (&str, &[Sql]),
        limit: usize,
    ) -> Result<Vec<(i64, Value)>, ServiceError> {
        let sql = format!(
            "SELECT lsn, body FROM history WHERE container = ? AND lsn > ? AND {condition} ORDER BY lsn, number LIMIT ?"
        );
        let mut all = vec![Sql::Integer(self.number), Sql::Integer(lsn)];
        all.extend(parameters.iter().cloned());
        all.push(Sql::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(all))?;
        let mut changes = Vec::new();
        while let Some(row) = rows.next()? {
            let body: String = row.get(1)?;
            changes.push((row.get(0)?, serde_json::from_str(&body)?));
        }
        Ok(changes)
    }
}
