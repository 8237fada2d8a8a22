//! Rebuilding the indexes of a container whose policy was replaced, while it is in use.
//!
//! The documents are copied, some at a time between other writes, into a second table that has the new indexes; triggers
//! bring every write meanwhile into both. When all are copied the second table takes the place of the first. How far it
//! has come is kept with the data, so a process that dies in the middle goes on after its next start. As on the service,
//! a sort has to be served by the former policy too until then (index-policy: modifying the indexing policy).

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::container::Container;
use super::indexes;
use super::version::next_lsn;
use crate::error::ServiceError;

/// Documents that are copied by one statement.
const CHUNK: i64 = 100;
/// How long the writers wait for one step.
const STEP_TIME: Duration = Duration::from_millis(4);

pub(super) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS transformation (
            container INTEGER PRIMARY KEY, generation INTEGER NOT NULL, former TEXT NOT NULL, total INTEGER NOT NULL, done INTEGER NOT NULL,
            pk TEXT NOT NULL, id TEXT NOT NULL);",
    )?;
    Ok(())
}

/// Begins to give a container the indexes of this policy. A container of a few documents has them when this returns.
pub(super) fn begin(
    connection: &Connection,
    container: &Container,
    policy: &Value,
) -> Result<(), ServiceError> {
    abandon(connection, container.number)?;
    let number = container.number;
    let next = format!("document_{number}_next");
    // Unlike that of any table before.
    let generation = next_lsn(connection)?;
    let prefix = indexes::prefix(number, generation);
    indexes::create_table(connection, &next, &prefix, policy)?;
    let columns = "pk, id, epk, body, etag, lsn, ts, expires";
    let values = "NEW.pk, NEW.id, NEW.epk, NEW.body, NEW.etag, NEW.lsn, NEW.ts, NEW.expires";
    // No `OR REPLACE`: in a trigger the statement that fires it decides about conflicts.
    for event in ["INSERT", "UPDATE"] {
        connection.execute_batch(&format!(
            "CREATE TRIGGER document_{number}_{event} AFTER {event} ON document_{number} BEGIN
                DELETE FROM {next} WHERE pk = NEW.pk AND id = NEW.id;
                INSERT INTO {next} ({columns}) VALUES ({values}); END"
        ))?;
    }
    connection.execute_batch(&format!(
        "CREATE TRIGGER document_{number}_DELETE AFTER DELETE ON document_{number} BEGIN
            DELETE FROM {next} WHERE pk = OLD.pk AND id = OLD.id; END"
    ))?;
    // The table still has the indexes of the policy before, however often it was replaced since.
    let former = container.indexed_policy();
    connection.execute(
        &format!(
            "INSERT INTO transformation (container, generation, former, total, done, pk, id)
             SELECT ?, ?, ?, count(*), 0, '', '' FROM document_{number}"
        ),
        params![number, generation, former.to_string()],
    )?;
    step(connection)?;
    Ok(())
}

/// Forgets a transformation that will not be finished.
pub(super) fn abandon(connection: &Connection, number: i64) -> Result<(), ServiceError> {
    connection.execute_batch(&format!(
        "DROP TRIGGER IF EXISTS document_{number}_INSERT;
         DROP TRIGGER IF EXISTS document_{number}_UPDATE;
         DROP TRIGGER IF EXISTS document_{number}_DELETE;
         DROP TABLE IF EXISTS document_{number}_next;
         DELETE FROM transformation WHERE container = {number};"
    ))?;
    Ok(())
}

impl Container {
    /// Returns the progress of the index transformation in percent; 100 when the indexes are those of the policy.
    pub(crate) fn index_progress(&self, connection: &Connection) -> Result<i64, ServiceError> {
        let found = connection
            .prepare_cached("SELECT done, total FROM transformation WHERE container = ?")?
            .query_row([self.number], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let percent = |(done, total): (i64, i64)| (done * 100 / total.max(1)).clamp(0, 99);
        Ok(found.map_or(100, percent))
    }
}

/// Copies some documents, and says whether there is more to do.
pub(super) fn step(connection: &Connection) -> Result<bool, ServiceError> {
    let begun = Instant::now();
    loop {
        let oldest = connection
            .prepare_cached("SELECT container, pk, id FROM transformation LIMIT 1")?
            .query_row([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))
            .optional()?;
        let Some((number, after)) = oldest else {
            return Ok(false);
        };
        copy(connection, number, &after)?;
        if begun.elapsed() > STEP_TIME {
            return Ok(true);
        }
    }
}

/// Copies a chunk behind a key, and ends the transformation when none is left.
fn copy(
    connection: &Connection,
    number: i64,
    (pk, id): &(String, String),
) -> Result<(), ServiceError> {
    let last: Option<(String, String)> = connection
        .prepare_cached(&format!(
            "SELECT pk, id FROM document_{number} WHERE (pk, id) > (?, ?) ORDER BY pk, id LIMIT 1 OFFSET ?"
        ))?
        .query_row(params![pk, id, CHUNK - 1], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    // What was written since the beginning is there already, and newer.
    connection
        .prepare_cached(&format!(
            "INSERT OR IGNORE INTO document_{number}_next (pk, id, epk, body, etag, lsn, ts, expires)
             SELECT pk, id, epk, body, etag, lsn, ts, expires FROM document_{number}
             WHERE (pk, id) > (?, ?) ORDER BY pk, id LIMIT ?"
        ))?
        .execute(params![pk, id, CHUNK])?;
    let Some((pk, id)) = last else {
        return finish(connection, number);
    };
    connection
        .prepare_cached(
            "UPDATE transformation SET done = done + ?, pk = ?, id = ? WHERE container = ?",
        )?
        .execute(params![CHUNK, pk, id, number])?;
    Ok(())
}

fn finish(connection: &Connection, number: i64) -> Result<(), ServiceError> {
    // With the table go its indexes and triggers.
    connection.execute_batch(&format!(
        "DROP TABLE document_{number};
         ALTER TABLE document_{number}_next RENAME TO document_{number};
         UPDATE container SET generation =
            (SELECT generation FROM transformation WHERE container = {number}) WHERE number = {number};
         DELETE FROM transformation WHERE container = {number};"
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::store::{Database, Store, StoredDocument, catalog};

    /// More than one step copies.
    const MANY: i64 = 20_000;

    fn policy(path: &str) -> Value {
        json!({ "includedPaths": [{ "path": path }], "excludedPaths": [{ "path": "/*" }] })
    }

    fn definition(path: &str) -> Value {
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": policy(path) })
    }

    fn document(n: i64, value: i64) -> StoredDocument {
        StoredDocument {
            pk: format!("[\"p{}\"]", n % 10),
            id: n.to_string(),
            epk: String::new(),
            body: json!({ "a": value, "b": -value }).to_string(),
            etag: String::new(),
            lsn: 1,
            ts: 0,
            expires: None,
        }
    }

    /// A container whose documents are indexed by `/a`.
    fn filled(connection: &Connection) -> Container {
        catalog::create(connection).unwrap();
        Database::create(connection, "d", 0).unwrap();
        let container = Container::create(connection, "d", &definition("/a/?"), 1, 0).unwrap();
        connection.execute_batch("BEGIN").unwrap();
        for n in 0..MANY {
            container.write(connection, &document(n, n)).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
        container
    }

    fn find(connection: &Connection) -> Container {
        Container::find(connection, "d", "c").unwrap()
    }

    fn content(connection: &Connection, container: &Container) -> BTreeMap<i64, i64> {
        let sql = format!(
            "SELECT id, json_extract(body, '$.a') FROM document_{}",
            container.number
        );
        let mut statement = connection.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| {
            let id: String = row.get(0)?;
            Ok((id.parse().unwrap(), row.get(1)?))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// What the schema has beside the tables that every store has.
    fn schema(connection: &Connection) -> Vec<String> {
        let sql = "SELECT name FROM sqlite_schema WHERE name LIKE 'document%' ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0));
        names.unwrap().map(Result::unwrap).collect()
    }

    fn finish_all(connection: &Connection) {
        let mut before = 0;
        while step(connection).unwrap() {
            let now = find(connection).index_progress(connection).unwrap();
            assert!(before <= now, "{before} → {now}");
            before = now;
        }
    }

    #[test]
    fn writes_go_on_while_indexes_are_rebuilt() {
        let connection = Connection::open_in_memory().unwrap();
        let container = filled(&connection);
        let mut expected: BTreeMap<i64, i64> = (0..MANY).map(|n| (n, n)).collect();
        container.replace(&connection, &definition("/b/?")).unwrap();
        let replaced = find(&connection);
        assert!(replaced.index_progress(&connection).unwrap() < 100);
        let serving: Vec<&Value> = replaced.serving_policies().collect();
        assert_eq!(serving, [&policy("/b/?"), &policy("/a/?")]);
        // Some of them are copied already, most are not.
        for n in (0..MANY).step_by(7) {
            let document = document(n, n + 1);
            replaced
                .remove(&connection, &document.pk, &document.id)
                .unwrap();
            expected.remove(&n);
            if n % 2 == 0 {
                replaced.write(&connection, &document).unwrap();
                expected.insert(n, n + 1);
            }
        }
        for n in (0..MANY + 500).step_by(11) {
            replaced.write(&connection, &document(n, n + 2)).unwrap();
            expected.insert(n, n + 2);
        }
        finish_all(&connection);
        let done = find(&connection);
        assert_eq!(done.index_progress(&connection).unwrap(), 100);
        assert_eq!(done.serving_policies().count(), 1);
        assert_eq!(content(&connection, &done), expected);
        // A table with an index for the log and one for the path; no triggers, no second table.
        assert_eq!(schema(&connection).len(), 3, "{:?}", schema(&connection));
        let first = format!("{}_path_0", done.index_prefix());
        assert!(schema(&connection).contains(&first), "{first}");
        let sound: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
    }

    #[test]
    fn the_last_of_several_replacements_wins() {
        let connection = Connection::open_in_memory().unwrap();
        let container = filled(&connection);
        container.replace(&connection, &definition("/b/?")).unwrap();
        find(&connection)
            .replace(&connection, &definition("/c/?"))
            .unwrap();
        let found = find(&connection);
        let serving: Vec<&Value> = found.serving_policies().collect();
        assert_eq!(serving, [&policy("/c/?"), &policy("/a/?")]);
        finish_all(&connection);
        assert_eq!(content(&connection, &found).len(), 20_000);
        assert_eq!(schema(&connection).len(), 3, "{:?}", schema(&connection));
    }

    #[test]
    fn a_container_that_is_deleted_meanwhile_leaves_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        let container = filled(&connection);
        container.replace(&connection, &definition("/b/?")).unwrap();
        find(&connection).delete(&connection).unwrap();
        assert!(schema(&connection).is_empty(), "{:?}", schema(&connection));
        assert!(!step(&connection).unwrap());
    }

    #[test]
    fn a_process_that_starts_again_goes_on_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        drop(Store::open(Some(folder.path())).unwrap());
        let connection = Connection::open(folder.path().join("cosmos.sqlite")).unwrap();
        let container = filled(&connection);
        container.replace(&connection, &definition("/b/?")).unwrap();
        step(&connection).unwrap();
        let reached = container.index_progress(&connection).unwrap();
        assert!((0..100).contains(&reached), "{reached}");
        drop(connection);
        let store = Store::open(Some(folder.path())).unwrap();
        for _ in 0..60_000 {
            let connection = store.read().unwrap();
            if container.index_progress(&connection).unwrap() == 100 {
                assert_eq!(content(&connection, &container).len(), 20_000);
                return;
            }
            drop(connection);
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the indexes are never rebuilt");
    }
}
