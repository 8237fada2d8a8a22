//! Indexes that a container learns: for a path that its policy covers by a wildcard (`/*`, `/a/*`) or that leads through an
//! array (`/a/[]/?`), the first query that filters or sorts by it.
//!
//! The schema itself says which there are, since an index is called after its path. So they survive a restart, and go
//! with the table when the policy is replaced.

use rusqlite::Connection;

use super::container::Container;
use super::elements;
use super::indexes::{LEARNED, expression, learned_name};
use crate::error::ServiceError;

/// Learned indexes per container: each one costs every write.
const MOST: usize = 32;
/// A container of fewer documents is read as fast without; tests have none with more.
const FEW: i64 = if cfg!(test) { 4 } else { 1000 };
impl Container {
    /// The paths that have an index beside those of the policy.
    pub(crate) fn learned(&self, connection: &Connection) -> Result<Vec<String>, ServiceError> {
        let prefix = format!("{}_{LEARNED}", self.index_prefix());
        let mut statement = connection.prepare_cached(
            "SELECT CAST(unhex(substr(name, length(?1) + 1)) AS TEXT) FROM sqlite_schema
             WHERE type = 'index' AND substr(name, 1, length(?1)) = ?1",
        )?;
        let paths = statement.query_map([prefix], |row| row.get(0))?;
        Ok(paths.collect::<Result<_, _>>()?)
    }

    /// Whether one more index would pay; `known` are those that it has learned.
    pub(crate) fn would_learn(
        &self,
        connection: &Connection,
        known: &[String],
    ) -> Result<bool, ServiceError> {
        // A table that is being replaced takes its indexes with it.
        if known.len() >= MOST || self.former.is_some() {
            return Ok(false);
        }
        let (number, prefix) = (self.number, self.index_prefix());
        let sql = format!(
            "SELECT 1 FROM document_{number} INDEXED BY {prefix}_lsn ORDER BY lsn LIMIT 1 OFFSET ?"
        );
        Ok(connection.prepare_cached(&sql)?.exists([FEW - 1])?)
    }

    /// Gives a path an index, unless it has one or the table that was to have it is gone meanwhile.
    pub(crate) fn learn(&self, connection: &Connection, path: &str) -> Result<(), ServiceError> {
        let prefix = self.index_prefix();
        let still = connection
            .prepare_cached("SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?")?
            .exists([format!("{prefix}_lsn")])?;
        let known = self.learned(connection)?;
        if !still || known.len() >= MOST {
            return Ok(());
        }
        if known.iter().any(|known| known == path) {
            return Ok(());
        }
        if elements::is_element(path) {
            return self.learn_elements(connection, path);
        }
        connection.execute_batch(&format!(
            "CREATE INDEX {prefix}_{} ON document_{} ({})",
            learned_name(path),
            self.number,
            expression(path, false)?
        ))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::op::rows_of;
    use crate::plan::pushdown;
    use crate::store::{Database, Store, StoredDocument};

    const FILTER: &str = "SELECT c.id FROM c WHERE c.a.b = 3";

    fn definition(included: &str) -> Value {
        let policy = json!({ "includedPaths": [{ "path": included }], "excludedPaths": [] });
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": policy })
    }

    fn filled(connection: &Connection) -> Container {
        Database::create(connection, "d", 0).unwrap();
        let container = Container::create(connection, "d", &definition("/*"), 1, 0).unwrap();
        for n in 0..50 {
            let document = StoredDocument {
                pk: (n % 7).to_string(),
                id: n.to_string(),
                epk: String::new(),
                body: json!({ "id": n.to_string(), "a": { "b": n % 5 }, "A": { "b": n } })
                    .to_string(),
                etag: String::new(),
                lsn: 1,
                ts: 0,
                expires: None,
            };
            container.write(connection, &document).unwrap();
        }
        container
    }

    fn ids(connection: &Connection, container: &Container, text: &str) -> Vec<String> {
        let rows = rows_of(connection, container, text, (HashMap::new(), 4)).unwrap();
        let mut ids: Vec<String> = rows.iter().map(Value::to_string).collect();
        ids.sort();
        ids
    }

    /// How SQLite goes about a query now.
    fn steps(connection: &Connection, container: &Container, text: &str) -> String {
        let select = crate::sql::parse(text).unwrap();
        let learned = container.learned(connection).unwrap();
        let policy = (container.policy(), &*learned);
        let plan = pushdown(&select, &HashMap::new(), policy, false);
        let whole = plan.order.whole();
        let prefix = container.index_prefix();
        let index = whole
            .index
            .map(|name| format!("INDEXED BY {prefix}_{name}"));
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT body FROM document_{} {} WHERE {} ORDER BY {}",
            container.number,
            index.unwrap_or_default(),
            plan.condition,
            whole.order
        );
        let mut statement = connection.prepare(&sql).unwrap();
        let parameters = rusqlite::params_from_iter(&plan.parameters);
        let rows = statement.query_map(parameters, |row| row.get::<_, String>(3));
        let rows: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
        rows.join("\n")
    }

    #[test]
    fn the_first_query_of_a_path_gives_it_an_index_that_the_next_one_uses() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        for (text, name) in [
            (FILTER, learned_name("/a/b")),
            (
                "SELECT c.id FROM c ORDER BY c.A.b DESC",
                learned_name("/A/b"),
            ),
            ("SELECT c.id FROM c WHERE c.id > '3'", learned_name("/id")),
        ] {
            let before = steps(&connection, &container, text);
            assert!(!before.contains(&name), "{text}: {before}");
            let first = ids(&connection, &container, text);
            let after = steps(&connection, &container, text);
            assert!(after.contains(&name), "{text}: {after}");
            assert!(!after.contains("TEMP B-TREE"), "{text}: {after}");
            assert_eq!(ids(&connection, &container, text), first, "{text}");
        }
        assert_eq!(container.learned(&connection).unwrap().len(), 3);
    }

    #[test]
    fn a_container_learns_so_many_and_no_more() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        for n in 0..MOST + 3 {
            container.learn(&connection, &format!("/p{n}")).unwrap();
        }
        let known = container.learned(&connection).unwrap();
        assert_eq!(known.len(), MOST);
        assert!(!container.would_learn(&connection, &known).unwrap());
        assert_eq!(ids(&connection, &container, FILTER).len(), 10);
    }

    #[test]
    fn a_replaced_policy_forgets_what_was_learned_and_learns_anew() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        assert_eq!(ids(&connection, &container, FILTER).len(), 10);
        assert_eq!(container.learned(&connection).unwrap(), ["/a/b"]);
        container.replace(&connection, &definition("/a/*")).unwrap();
        let replaced = Container::find(&connection, "d", "c").unwrap();
        assert_eq!(replaced.index_progress(&connection).unwrap(), 100);
        assert!(replaced.learned(&connection).unwrap().is_empty());
        // A wish from before comes too late.
        container.learn(&connection, "/a/b").unwrap();
        assert!(container.learned(&connection).unwrap().is_empty());
        assert_eq!(ids(&connection, &replaced, FILTER).len(), 10);
        assert_eq!(replaced.learned(&connection).unwrap(), ["/a/b"]);
    }

    #[test]
    fn what_was_learned_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Some(folder.path())).unwrap();
        let container = filled(&store.lock());
        store.learn(container, "/a/b".to_owned());
        // Ends when the writer has done what it was asked.
        store.close();
        drop(store);
        let store = Store::open(Some(folder.path())).unwrap();
        let connection = store.read().unwrap();
        let container = Container::find(&connection, "d", "c").unwrap();
        let steps = steps(&connection, &container, FILTER);
        assert!(steps.contains(&learned_name("/a/b")), "{steps}");
        assert_eq!(ids(&connection, &container, FILTER).len(), 10);
    }
}
