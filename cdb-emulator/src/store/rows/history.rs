//! The change feed of all versions and deletes, for containers with a `changeFeedPolicy`.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params, params_from_iter};
use serde_json::{Value, json};

use super::documents::RowCondition;
use crate::protocol::ServiceError;
use crate::store::container::Container;

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

pub(in crate::store) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS history (
            number INTEGER PRIMARY KEY AUTOINCREMENT, container INTEGER NOT NULL, lsn INTEGER NOT NULL, ts INTEGER NOT NULL,
            pk TEXT NOT NULL, epk TEXT NOT NULL, body TEXT NOT NULL);
         CREATE INDEX IF NOT EXISTS history_lsn ON history (container, lsn);
         CREATE INDEX IF NOT EXISTS history_ts ON history (container, ts);
         CREATE TABLE IF NOT EXISTS history_gap (
            container INTEGER NOT NULL, pk TEXT NOT NULL, epk TEXT NOT NULL, lsn INTEGER NOT NULL, ts INTEGER NOT NULL,
            PRIMARY KEY (container, pk)) WITHOUT ROWID;",
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
        self.expire(connection, change.ts - minutes * 60)
    }

    /// Removes the writes before a time. Notes the last one of each partition key, so that a reader
    /// that has not seen it is told.
    fn expire(&self, connection: &Connection, before: i64) -> Result<(), ServiceError> {
        let expired = (self.number, before);
        let noted = connection
            .prepare_cached(
                "INSERT INTO history_gap (container, pk, epk, lsn, ts)
                 SELECT container, pk, epk, max(lsn), max(ts) FROM history WHERE container = ? AND ts < ? GROUP BY pk
                 ON CONFLICT (container, pk) DO UPDATE SET lsn = excluded.lsn, ts = excluded.ts",
            )?
            .execute(expired)?;
        if noted > 0 {
            connection
                .prepare_cached("DELETE FROM history WHERE container = ? AND ts < ?")?
                .execute(expired)?;
        }
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
    pub(in crate::store) fn forget(&self, connection: &Connection) -> Result<(), ServiceError> {
        connection.execute("DELETE FROM history WHERE container = ?", [self.number])?;
        connection.execute("DELETE FROM history_gap WHERE container = ?", [self.number])?;
        Ok(())
    }

    /// Returns the writes after `lsn` that meet a condition, oldest first, each with its LSN.
    ///
    /// # Errors
    /// When one of them is no longer kept.
    pub(crate) fn history(
        &self,
        connection: &Connection,
        lsn: i64,
        rows: &RowCondition,
        limit: usize,
    ) -> Result<Vec<(i64, Value)>, ServiceError> {
        let mut all = vec![Sql::Integer(self.number), Sql::Integer(lsn)];
        all.extend(rows.parameters.iter().cloned());
        let condition = &rows.condition;
        let gap = format!(
            "SELECT 1 FROM history_gap WHERE container = ? AND lsn > ? AND {condition} LIMIT 1"
        );
        let mut gap = connection.prepare_cached(&gap)?;
        if gap.exists(params_from_iter(&all))? {
            return Err(ServiceError::bad_request(
                "The continuation is older than the retentionDuration of the container's changeFeedPolicy, and changes after it \
                 are no longer kept. Start again from now.",
            ));
        }
        let sql = format!(
            "SELECT lsn, body FROM history WHERE container = ? AND lsn > ? AND {condition} ORDER BY lsn, number LIMIT ?"
        );
        all.push(Sql::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut statement = connection.prepare_cached(&sql)?;
        let mut found = statement.query(params_from_iter(all))?;
        let mut changes = Vec::new();
        while let Some(row) = found.next()? {
            let body: String = row.get(1)?;
            changes.push((row.get(0)?, serde_json::from_str(&body)?));
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::catalog::{self, Database};

    fn write(pk: &str, lsn: i64, ts: i64) -> Change<'_> {
        Change {
            operation: "create",
            pk,
            epk: pk,
            id: "1",
            lsn,
            ts,
            previous_lsn: None,
            current: Some("{}"),
        }
    }

    #[test]
    fn a_reader_is_told_that_it_has_missed_changes_that_are_no_longer_kept() {
        let connection = Connection::open_in_memory().unwrap();
        catalog::create(&connection).unwrap();
        Database::create(&connection, "d", 0).unwrap();
        let definition = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] },
            "changeFeedPolicy": { "retentionDuration": 10 }, "indexingPolicy": {} });
        let container = Container::create(&connection, "d", &definition, 1, 0).unwrap();
        let read = |lsn, condition: &str, parameters| {
            let condition = condition.to_owned();
            let rows = RowCondition {
                condition,
                parameters,
            };
            container.history(&connection, lsn, &rows, 100)
        };
        container.keep(&connection, &write("a", 1, 0)).unwrap();
        container.keep(&connection, &write("a", 2, 60)).unwrap();
        container.keep(&connection, &write("b", 3, 601)).unwrap();
        assert!(read(0, "1", Vec::new()).is_err(), "the write 1 is gone");
        let rows = read(1, "1", Vec::new()).unwrap();
        let lsns: Vec<i64> = rows.into_iter().map(|(lsn, _)| lsn).collect();
        assert_eq!(lsns, [2, 3]);
        // A reader of another partition key has missed nothing.
        let of_b = vec![Sql::Text("b".to_owned())];
        assert_eq!(read(0, "pk = ?", of_b).unwrap().len(), 1);
        container.forget(&connection).unwrap();
        assert_eq!(read(0, "1", Vec::new()).unwrap().len(), 0);
    }
}
