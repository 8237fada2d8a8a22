//! Documents as rows.

use rusqlite::types::{ToSql, Value as Sql};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use serde_json::Value;

use crate::protocol::ServiceError;
use crate::sql::value;
use crate::store::container::Container;
use crate::store::index::columns::{PathKeys, json_path, keys_of};

/// A stored document.
#[derive(Clone, Debug)]
pub(crate) struct StoredDocument {
    pub(crate) pk: String,
    pub(crate) id: String,
    pub(crate) epk: String,
    /// The JSON with system properties.
    pub(crate) body: String,
    pub(crate) etag: String,
    pub(crate) lsn: i64,
    pub(crate) ts: i64,
    /// The time of expiry in seconds since the epoch.
    pub(crate) expires: Option<i64>,
}

impl StoredDocument {
    /// Reads the columns `pk, id, epk, body, etag, lsn, ts, expires`.
    pub(in crate::store) fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            pk: row.get(0)?,
            id: row.get(1)?,
            epk: row.get(2)?,
            body: row.get(3)?,
            etag: row.get(4)?,
            lsn: row.get(5)?,
            ts: row.get(6)?,
            expires: row.get(7)?,
        })
    }
}

/// A condition on rows, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowCondition {
    pub(crate) condition: String,
    pub(crate) parameters: Vec<Sql>,
}

/// A row of a scan.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) pk: String,
    pub(crate) id: String,
    pub(crate) body: String,
    /// The values of [`Scan::keys`].
    pub(crate) keys: Vec<Sql>,
}

/// The parameters of a scan.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    /// Expressions that the scan returns with each document.
    pub(crate) keys: &'a [String],
    /// The index by its name in [`Policy::indexes`](crate::store::Policy::indexes); SQLite chooses when `None`.
    pub(crate) index: Option<&'a str>,
    pub(crate) condition: &'a str,
    pub(crate) order: &'a str,
    pub(crate) parameters: &'a [Sql],
}

impl Container {
    /// Reads a document; `None` if it is missing or expired.
    pub(crate) fn read(
        &self,
        connection: &Connection,
        pk: &str,
        id: &str,
        now: i64,
    ) -> Result<Option<StoredDocument>, ServiceError> {
        let sql = format!(
            "SELECT pk, id, epk, body, etag, lsn, ts, expires FROM {}
             WHERE pk = ? AND id = ? AND (expires IS NULL OR expires >= ?)",
            self.source()
        );
        Ok(connection
            .prepare_cached(&sql)?
            .query_row(params![pk, id, now], StoredDocument::from_row)
            .optional()?)
    }

    /// Reads all documents of a partition key.
    pub(crate) fn read_key(
        &self,
        connection: &Connection,
        pk: &str,
    ) -> Result<Vec<StoredDocument>, ServiceError> {
        let sql = format!(
            "SELECT pk, id, epk, body, etag, lsn, ts, expires FROM document_{} WHERE pk = ?",
            self.number
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([pk], StoredDocument::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Inserts or replaces a document.
    #[cfg(test)]
    pub(crate) fn write(
        &self,
        connection: &Connection,
        document: &StoredDocument,
    ) -> Result<(), ServiceError> {
        let content = serde_json::from_str(&document.body)?;
        self.write_parsed(connection, document, &content)
    }

    /// Inserts or replaces a document whose parsed body is `content`.
    pub(crate) fn write_parsed(
        &self,
        connection: &Connection,
        document: &StoredDocument,
        content: &Value,
    ) -> Result<(), ServiceError> {
        let policy = self.policy();
        let (mut columns, mut keys) = (Vec::new(), Vec::new());
        for PathKeys { path, rank, value } in policy.columns() {
            columns.extend([&**rank, value]);
            keys.extend(keys_of(content, path));
        }
        match self.stored_keys(connection, document, &columns)? {
            None => self.insert(connection, document, &columns, &keys)?,
            Some(stored) => {
                let changed = (0..keys.len()).filter(|at| keys[*at] != stored[*at]);
                let changed = changed.map(|at| (columns[at], &keys[at]));
                self.update(connection, document, &changed.collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// Returns the sort keys of the stored version of a document; `None` if there is none.
    fn stored_keys(
        &self,
        connection: &Connection,
        document: &StoredDocument,
        columns: &[&str],
    ) -> Result<Option<Vec<Sql>>, ServiceError> {
        let list: String = columns.iter().flat_map(|name| [name, ", "]).collect();
        let number = self.number;
        let sql = format!("SELECT {list}1 FROM document_{number} WHERE pk = ? AND id = ?");
        let mut statement = connection.prepare_cached(&sql)?;
        let stored = statement.query_row([&document.pk, &document.id], |row| {
            (0..columns.len()).map(|at| row.get(at)).collect()
        });
        Ok(stored.optional()?)
    }

    fn insert(
        &self,
        connection: &Connection,
        document: &StoredDocument,
        columns: &[&str],
        keys: &[Sql],
    ) -> Result<(), ServiceError> {
        let list: String = columns.iter().flat_map(|name| [", ", name]).collect();
        let sql = format!(
            "INSERT INTO document_{} (pk, id, epk, body, etag, lsn, ts, expires{list})
             VALUES (?, ?, ?, ?, ?, ?, ?, ?{})",
            self.number,
            ", ?".repeat(keys.len())
        );
        let mut values = params![
            document.pk,
            document.id,
            document.epk,
            document.body,
            document.etag,
            document.lsn,
            document.ts,
            document.expires
        ]
        .to_vec();
        values.extend(keys.iter().map(|key| key as &dyn ToSql));
        connection.prepare_cached(&sql)?.execute(&*values)?;
        Ok(())
    }

    /// Updates a document and its changed keys. SQLite leaves the indexes of other keys alone.
    fn update(
        &self,
        connection: &Connection,
        document: &StoredDocument,
        changed: &[(&str, &Sql)],
    ) -> Result<(), ServiceError> {
        let list: String = changed
            .iter()
            .flat_map(|(name, _)| [", ", name, " = ?"])
            .collect();
        let sql = format!(
            "UPDATE document_{} SET body = ?, etag = ?, lsn = ?, ts = ?, expires = ?{list}
             WHERE pk = ? AND id = ?",
            self.number
        );
        let mut values = params![
            document.body,
            document.etag,
            document.lsn,
            document.ts,
            document.expires
        ]
        .to_vec();
        values.extend(changed.iter().map(|(_, key)| *key as &dyn ToSql));
        values.extend([&document.pk as &dyn ToSql, &document.id]);
        connection.prepare_cached(&sql)?.execute(&*values)?;
        Ok(())
    }

    /// Fails if another document of the same partition key has the same values of a unique key. A
    /// missing value counts as null.
    pub(crate) fn check_unique(
        &self,
        connection: &Connection,
        document: &StoredDocument,
    ) -> Result<(), ServiceError> {
        let keys = self.unique_keys();
        if keys.is_empty() {
            return Ok(());
        }
        let new: Value = serde_json::from_str(&document.body)?;
        for paths in keys {
            // SQLite's text of `true` is that of 1, and that of an array is that of a string, so it only
            // narrows the search.
            let similar: Vec<String> = paths
                .iter()
                .filter(|path| {
                    let value = new.pointer(path).unwrap_or(&Value::Null);
                    !value.is_object() && !value.is_array()
                })
                .map(|path| {
                    let new = json_path(path).replacen("body", "?3", 1);
                    format!(" AND {} IS {new}", json_path(path))
                })
                .collect();
            let sql = format!(
                "SELECT body FROM document_{} WHERE pk = ?1 AND id <> ?2
                 AND (expires IS NULL OR expires >= ?4) AND ?3 IS NOT NULL{}",
                self.number,
                similar.concat()
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params![
                document.pk,
                document.id,
                document.body,
                document.ts
            ])?;
            let mut taken = false;
            while let Some(row) = rows.next()? {
                let other: Value = serde_json::from_str(&row.get::<_, String>(0)?)?;
                let value = |of: &Value, path: &str| {
                    let value = of.pointer(path).unwrap_or(&Value::Null);
                    value::identity(Some(value))
                };
                taken |= paths
                    .iter()
                    .all(|path| value(&new, path) == value(&other, path));
            }
            if taken {
                let message = "Unique index constraint violation.";
                return Err(ServiceError::new(409, 3301, "Conflict", message));
            }
        }
        Ok(())
    }

    /// Deletes a document.
    pub(crate) fn remove(
        &self,
        connection: &Connection,
        pk: &str,
        id: &str,
    ) -> Result<(), ServiceError> {
        let sql = format!(
            "DELETE FROM document_{} WHERE pk = ? AND id = ?",
            self.number
        );
        connection.prepare_cached(&sql)?.execute([pk, id])?;
        Ok(())
    }

    /// Visits the rows that meet a condition, in order, until `visit` returns `false`.
    pub(crate) fn scan(
        &self,
        connection: &Connection,
        scan: &Scan<'_>,
        mut visit: impl FnMut(Row) -> Result<bool, ServiceError>,
    ) -> Result<(), ServiceError> {
        let keys: String = scan.keys.iter().flat_map(|key| [", ", key]).collect();
        let table = self.indexed_source();
        let index = self.indexed_by(scan.index);
        let sql = format!(
            "SELECT pk, id, body{keys} FROM {table}{index} WHERE {} ORDER BY {}",
            scan.condition, scan.order
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let parameters = scan.parameters.iter().map(|value| value as &dyn ToSql);
        let mut rows = statement.query(params_from_iter(parameters))?;
        while let Some(row) = rows.next()? {
            let keys = (3..3 + scan.keys.len()).map(|at| row.get(at));
            let row = Row {
                pk: row.get(0)?,
                id: row.get(1)?,
                body: row.get(2)?,
                keys: keys.collect::<Result<_, _>>()?,
            };
            if !visit(row)? {
                break;
            }
        }
        Ok(())
    }

    /// Counts the rows that meet a condition.
    pub(crate) fn count(
        &self,
        connection: &Connection,
        index: Option<&str>,
        condition: &str,
        parameters: &[Sql],
    ) -> Result<usize, ServiceError> {
        let (table, index) = (self.indexed_source(), self.indexed_by(index));
        let sql = format!("SELECT count(*) FROM {table}{index} WHERE {condition}");
        let mut statement = connection.prepare_cached(&sql)?;
        let count: i64 = statement.query_row(params_from_iter(parameters), |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Returns the SQL clause that selects an index.
    fn indexed_by(&self, index: Option<&str>) -> String {
        let table = self.table();
        // The state of a lagging replica is read from two tables, each by the index that fits.
        let index = index.filter(|_| self.snapshot.is_none());
        index.map_or_else(String::new, |index| format!(" INDEXED BY {table}_{index}"))
    }

    /// Returns the changes after `lsn` that meet a condition, oldest first, each with its LSN.
    pub(crate) fn changes(
        &self,
        connection: &Connection,
        lsn: i64,
        rows: &RowCondition,
        limit: usize,
    ) -> Result<Vec<(i64, Value)>, ServiceError> {
        let sql = format!(
            "SELECT lsn, body FROM {} WHERE lsn > ? AND {} ORDER BY lsn, pk, id LIMIT ?",
            self.source(),
            rows.condition
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = connection.prepare_cached(&sql)?;
        let mut all = vec![Sql::Integer(lsn)];
        all.extend(rows.parameters.iter().cloned());
        all.push(Sql::Integer(limit));
        let mut found = statement.query(params_from_iter(all))?;
        let mut changes = Vec::new();
        while let Some(row) = found.next()? {
            let body: String = row.get(1)?;
            changes.push((row.get(0)?, serde_json::from_str(&body)?));
        }
        Ok(changes)
    }
}
