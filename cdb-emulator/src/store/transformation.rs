//! Index transformations: the online rebuild of indexes after a policy was replaced.
//!
//! The writer copies documents in steps, between other writes, into a second table with the new
//! indexes. Triggers apply concurrent writes to both tables. After the last step the second table
//! replaces the first. The progress is stored, so the rebuild continues after a restart. Until it
//! is complete, the former policy has to serve a sort too, as on the service (index-policy:
//! modifying the indexing policy).

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::columns::PathKeys;
use super::container::Container;
use super::indexes::{self, Policy};
use super::version::next_lsn;
use crate::clock::stopwatch;
use crate::error::ServiceError;

/// Documents per statement.
const CHUNK: i64 = 100;
/// Maximum time of a step, which other writes wait for.
const STEP_TIME: Duration = Duration::from_millis(4);

pub(super) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS transformation (
            container INTEGER PRIMARY KEY, generation INTEGER NOT NULL, former TEXT NOT NULL, total INTEGER NOT NULL, done INTEGER NOT NULL,
            pk TEXT NOT NULL, id TEXT NOT NULL);",
    )?;
    Ok(())
}

/// Starts a transformation. For a small container it is complete when this returns.
pub(super) fn begin(
    connection: &Connection,
    container: &Container,
    policy: &Policy,
) -> Result<(), ServiceError> {
    cancel(connection, container.number)?;
    let number = container.number;
    let next = format!("document_{number}_next");
    // An LSN is unique among the generations of a container.
    let generation = next_lsn(connection)?;
    let prefix = indexes::prefix(number, generation);
    indexes::create_table(connection, &next, &prefix, policy)?;
    let (columns, values) = copied(policy);
    // `OR REPLACE` would not work: in a trigger, the conflict policy of the outer statement
    // applies.
    for event in ["INSERT", "UPDATE"] {
        connection.execute_batch(&format!(
            "CREATE TRIGGER document_{number}_{event} AFTER {event} ON document_{number} BEGIN
                DELETE FROM {next} WHERE pk = NEW.pk AND id = NEW.id;
                INSERT INTO {next} ({columns}) SELECT {values} FROM document_{number}
                    WHERE pk = NEW.pk AND id = NEW.id; END"
        ))?;
    }
    connection.execute_batch(&format!(
        "CREATE TRIGGER document_{number}_DELETE AFTER DELETE ON document_{number} BEGIN
            DELETE FROM {next} WHERE pk = OLD.pk AND id = OLD.id; END"
    ))?;
    // The table has the indexes of the policy before all replacements that were not completed.
    let former = container.indexed_policy();
    connection.execute(
        &format!(
            "INSERT INTO transformation (container, generation, former, total, done, pk, id)
             SELECT ?, ?, ?, count(*), 0, '', '' FROM document_{number}"
        ),
        params![number, generation, former.json().to_string()],
    )?;
    step(connection)?;
    Ok(())
}

/// Rebuilds the tables of all containers before this returns.
pub(super) fn rebuild(connection: &Connection) -> Result<(), ServiceError> {
    let transaction = connection.unchecked_transaction()?;
    let mut containers = transaction.prepare("SELECT number FROM container")?;
    let numbers: Vec<i64> = containers
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    drop(containers);
    for number in numbers {
        let table = format!("document_{number}");
        if transaction.table_exists(None, &*table)? {
            let container = Container::by_number(&transaction, number)?;
            begin(&transaction, &container, container.policy())?;
            while step(&transaction)? {}
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Cancels a transformation.
pub(super) fn cancel(connection: &Connection, number: i64) -> Result<(), ServiceError> {
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
    /// Returns the progress of the index transformation in percent; 100 when the indexes are those
    /// of the policy.
    pub(crate) fn index_progress(&self, connection: &Connection) -> Result<i64, ServiceError> {
        let found = connection
            .prepare_cached("SELECT done, total FROM transformation WHERE container = ?")?
            .query_row([self.number], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let percent = |(done, total): (i64, i64)| (done * 100 / total.max(1)).clamp(0, 99);
        Ok(found.map_or(100, percent))
    }
}

/// Returns whether a transformation is incomplete.
pub(super) fn is_pending(connection: &Connection) -> Result<bool, ServiceError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM transformation LIMIT 1")?;
    Ok(statement.exists([])?)
}

/// Runs a step of the oldest transformation. Returns whether work is left.
pub(super) fn step(connection: &Connection) -> Result<bool, ServiceError> {
    let begun = stopwatch();
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

/// Copies the documents after a key, and completes the transformation after the last one.
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
    let (columns, values) = copied(Container::by_number(connection, number)?.policy());
    // The triggers have inserted documents that were written since the start; those are newer.
    connection
        .prepare_cached(&format!(
            "INSERT OR IGNORE INTO document_{number}_next ({columns})
             SELECT {values} FROM document_{number}
             WHERE (pk, id) > (?, ?) ORDER BY pk, id LIMIT ?"
        ))?
        .execute(params![pk, id, CHUNK])?;
    let Some((pk, id)) = last else {
        return complete(connection, number);
    };
    connection
        .prepare_cached(
            "UPDATE transformation SET done = done + ?, pk = ?, id = ? WHERE container = ?",
        )?
        .execute(params![CHUNK, pk, id, number])?;
    Ok(())
}

/// Returns the columns of a table with a policy, and their values from a table with any policy.
fn copied(policy: &Policy) -> (String, String) {
    let mut columns = "pk, id, epk, body, etag, lsn, ts, expires".to_owned();
    let mut values = columns.clone();
    for column in policy.columns() {
        let found = PathKeys::in_body(column.path.clone());
        columns.extend([", ", &column.rank, ", ", &column.value]);
        values.extend([", ", &found.rank, ", ", &found.value]);
    }
    (columns, values)
}

fn complete(connection: &Connection, number: i64) -> Result<(), ServiceError> {
    // Dropping the table also drops its indexes and triggers, and those inside subtrees.
    connection.execute_batch(&format!(
        "DROP TABLE document_{number};
         ALTER TABLE document_{number}_next RENAME TO document_{number};
         UPDATE container SET generation =
            (SELECT generation FROM transformation WHERE container = {number}) WHERE number = {number};
         DELETE FROM transformation WHERE container = {number};
         DELETE FROM subtree_index WHERE container = {number};"
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use serde_json::{Value, json};

    use super::*;
    use crate::op::rows_of;
    use crate::store::{Database, Store, StoredDocument, catalog};

    /// More documents than one step copies.
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

    /// Creates a container with documents and an index on `/a`.
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

    /// Returns the tables, indexes and triggers of containers.
    fn schema(connection: &Connection) -> Vec<String> {
        let sql = "SELECT name FROM sqlite_schema WHERE name LIKE 'document%' ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0));
        names.unwrap().map(Result::unwrap).collect()
    }

    fn complete_all(connection: &Connection) {
        let mut before = 0;
        while step(connection).unwrap() {
            let now = find(connection).index_progress(connection).unwrap();
            assert!(before <= now, "{before} → {now}");
            before = now;
        }
    }

    #[test]
    fn writes_continue_during_a_transformation() {
        let connection = Connection::open_in_memory().unwrap();
        let container = filled(&connection);
        let mut expected: BTreeMap<i64, i64> = (0..MANY).map(|n| (n, n)).collect();
        container.replace(&connection, &definition("/b/?")).unwrap();
        let replaced = find(&connection);
        assert!(replaced.index_progress(&connection).unwrap() < 100);
        let serving: Vec<&Value> = replaced.serving_policies().map(Policy::json).collect();
        assert_eq!(serving, [&policy("/b/?"), &policy("/a/?")]);
        // Some of these documents were copied before, most were not.
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
        complete_all(&connection);
        let done = find(&connection);
        assert_eq!(done.index_progress(&connection).unwrap(), 100);
        assert_eq!(done.serving_policies().count(), 1);
        assert_eq!(content(&connection, &done), expected);
        // The table, the index of the LSN and the index of the path; no triggers and no second
        // table.
        assert_eq!(schema(&connection).len(), 3, "{:?}", schema(&connection));
        let first = format!("{}_path_0", done.index_prefix());
        assert!(schema(&connection).contains(&first), "{first}");
        let sound: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
    }

    #[test]
    fn the_last_of_several_policies_wins() {
        let connection = Connection::open_in_memory().unwrap();
        let container = filled(&connection);
        container.replace(&connection, &definition("/b/?")).unwrap();
        find(&connection)
            .replace(&connection, &definition("/c/?"))
            .unwrap();
        let found = find(&connection);
        let serving: Vec<&Value> = found.serving_policies().map(Policy::json).collect();
        assert_eq!(serving, [&policy("/c/?"), &policy("/a/?")]);
        complete_all(&connection);
        assert_eq!(content(&connection, &found).len(), 20_000);
        assert_eq!(schema(&connection).len(), 3, "{:?}", schema(&connection));
    }

    #[test]
    fn deleting_a_container_cancels_its_transformation() {
        let connection = Connection::open_in_memory().unwrap();
        let container = filled(&connection);
        container.replace(&connection, &definition("/b/?")).unwrap();
        find(&connection).delete(&connection).unwrap();
        assert!(schema(&connection).is_empty(), "{:?}", schema(&connection));
        assert!(!step(&connection).unwrap());
    }

    #[test]
    fn a_directory_of_an_older_emulator_is_rebuilt_when_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        drop(Store::open(Some(folder.path())).unwrap());
        let connection = Connection::open(folder.path().join("cosmos.sqlite")).unwrap();
        let container = filled(&connection);
        let PathKeys { rank, value, .. } = PathKeys::in_body("/a".to_owned());
        let columns = "pk, id, epk, etag, lsn, ts, expires, body";
        let table = format!("document_{}", container.number);
        let older = format!(
            "CREATE TABLE older (
                pk TEXT NOT NULL, id TEXT NOT NULL, epk TEXT NOT NULL, etag TEXT NOT NULL, lsn INTEGER NOT NULL,
                ts INTEGER NOT NULL, expires INTEGER, body TEXT NOT NULL, PRIMARY KEY (pk, id)) WITHOUT ROWID;
             INSERT INTO older SELECT {columns} FROM {table};
             DROP TABLE {table};
             ALTER TABLE older RENAME TO {table};
             CREATE INDEX {table}_lsn ON {table} (lsn);
             CREATE INDEX {table}_path_0 ON {table} ({rank} ASC, {value} ASC);
             PRAGMA user_version = 2;"
        );
        connection.execute_batch(&older).unwrap();
        drop(connection);
        let store = Store::open(Some(folder.path())).unwrap();
        let connection = store.lock();
        let container = find(&connection);
        assert_eq!(content(&connection, &container).len(), 20_000);
        let text = "SELECT VALUE c.b FROM c WHERE c.a = 7";
        let rows = rows_of(&connection, &container, text, (HashMap::new(), 10)).unwrap();
        assert_eq!(rows, [json!(-7)]);
    }

    #[test]
    fn a_restarted_process_continues_a_transformation() {
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
        panic!("the transformation does not complete");
    }
}
