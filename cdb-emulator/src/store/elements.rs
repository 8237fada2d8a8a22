//! Tables of array elements: for a path like `/tags/[]` or `/lines/[]/sku`, which documents have which values there.
//!
//! SQLite indexes an expression of a row by one value, and an array has many. So such a path gets a table of its own with
//! a row per document and value, which triggers keep as the documents are. Like the indexes of a subtree it is learned
//! ([`super::learned`]): made when the first query asks for it.

use rusqlite::Connection;

use super::columns::{json_name, rank_at, value_at};
use super::container::Container;
use super::indexes::learned_name;
use crate::error::ServiceError;

/// A path through one array.
struct ElementPath<'a> {
    array: &'a str,
    /// Below an element; empty for the element itself.
    rest: &'a str,
}

impl<'a> ElementPath<'a> {
    /// Nothing for a path without an array, or with an array in an array.
    fn parse(path: &'a str) -> Option<Self> {
        let (array, rest) = path.split_once("/[]")?;
        let whole = rest.is_empty() || rest.starts_with('/');
        (whole && !array.is_empty() && !rest.contains("/[]")).then_some(Self { array, rest })
    }

    /// The rows of one document, whose columns are reached by `row`.
    fn rows(&self, row: &str, from: &str) -> String {
        let array = json_name(self.array);
        let below = json_name(self.rest);
        let element = format!("{array} || '[' || element.key || ']' || substr({below}, 2)");
        let body = format!("{row}.body");
        let (rank, value) = (rank_at(&body, &element), value_at(&body, &element));
        format!(
            "SELECT DISTINCT {row}.pk, {row}.id, {rank}, {value}
             FROM {from} json_each({body}, {array}) AS element WHERE json_type({body}, {array}) = 'array'"
        )
    }
}

/// Whether a path can have a table.
pub(crate) fn is_element(path: &str) -> bool {
    ElementPath::parse(path).is_some()
}

impl Container {
    /// The table of a learned path.
    pub(crate) fn elements(&self, path: &str) -> String {
        format!("{}_elements_{}", self.index_prefix(), learned_name(path))
    }

    /// Gives a path its table, filled, and the triggers that keep it.
    pub(super) fn learn_elements(
        &self,
        connection: &Connection,
        path: &str,
    ) -> Result<(), ServiceError> {
        let Some(parsed) = ElementPath::parse(path) else {
            return Ok(());
        };
        let (table, prefix, name) = (self.elements(path), self.index_prefix(), learned_name(path));
        let documents = format!("document_{}", self.number);
        let (all, new) = (
            parsed.rows(&documents, &format!("{documents},")),
            parsed.rows("NEW", ""),
        );
        let insert = format!("INSERT INTO {table} (pk, id, rank, value)");
        let forget = format!("DELETE FROM {table} WHERE pk = OLD.pk AND id = OLD.id;");
        connection.execute_batch(&format!(
            "CREATE TABLE {table} (pk TEXT NOT NULL, id TEXT NOT NULL, rank INTEGER NOT NULL, value);
             {insert} {all};
             CREATE INDEX {prefix}_{name} ON {table} (rank, value, pk, id);
             CREATE INDEX {table}_of ON {table} (pk, id);
             CREATE TRIGGER {table}_insert AFTER INSERT ON {documents} BEGIN {insert} {new}; END;
             CREATE TRIGGER {table}_update AFTER UPDATE ON {documents} BEGIN {forget} {insert} {new}; END;
             CREATE TRIGGER {table}_delete AFTER DELETE ON {documents} BEGIN {forget} END;"
        ))?;
        Ok(())
    }
}

/// Drops the tables of indexes with this prefix, whose documents go.
pub(super) fn forget(connection: &Connection, prefix: &str) -> Result<(), ServiceError> {
    let mut statement = connection.prepare_cached(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1",
    )?;
    let names = statement.query_map([format!("{prefix}_elements_")], |row| row.get(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    for name in names {
        connection.execute_batch(&format!("DROP TABLE {name}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::op::rows_of;
    use crate::store::{Database, Store, StoredDocument};

    fn definition(included: &str) -> Value {
        let policy = json!({ "includedPaths": [{ "path": included }], "excludedPaths": [] });
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": policy })
    }

    fn write(connection: &Connection, container: &Container, n: i64, tags: &Value) {
        let document = StoredDocument {
            pk: (n % 3).to_string(),
            id: n.to_string(),
            epk: String::new(),
            body: json!({ "id": n.to_string(), "tags": tags }).to_string(),
            etag: String::new(),
            lsn: 1,
            ts: 0,
            expires: None,
        };
        container.write(connection, &document).unwrap();
    }

    fn filled(connection: &Connection) -> Container {
        Database::create(connection, "d", 0).unwrap();
        let container =
            Container::create(connection, "d", &definition("/tags/[]/?"), 1, 0).unwrap();
        for n in 0..40 {
            write(
                connection,
                &container,
                n,
                &json!([n % 4, "x", { "deep": n }]),
            );
        }
        container
    }

    fn ids(connection: &Connection, container: &Container, tag: &str) -> usize {
        let text = format!("SELECT c.id FROM c WHERE ARRAY_CONTAINS(c.tags, {tag})");
        let rows = rows_of(
            connection,
            container,
            &text,
            (std::collections::HashMap::new(), 7),
        );
        rows.unwrap().len()
    }

    fn rows(connection: &Connection, container: &Container) -> i64 {
        let sql = format!("SELECT count(*) FROM {}", container.elements("/tags/[]"));
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_table_follows_every_write() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        assert_eq!(ids(&connection, &container, "3"), 10);
        assert_eq!(container.learned(&connection).unwrap(), ["/tags/[]"]);
        assert_eq!(rows(&connection, &container), 120);
        write(&connection, &container, 3, &json!(["new", "new"]));
        write(&connection, &container, 100, &json!([3]));
        write(&connection, &container, 101, &json!("no array"));
        container.remove(&connection, "1", "7").unwrap();
        assert_eq!(rows(&connection, &container), 120 - 3 + 1 + 1 - 3);
        assert_eq!(ids(&connection, &container, "3"), 9);
        assert_eq!(ids(&connection, &container, "\"new\""), 1);
    }

    #[test]
    fn a_query_of_an_element_reads_its_table_and_not_every_document() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        container.learn(&connection, "/tags/[]").unwrap();
        let (table, elements) = (container.number, container.elements("/tags/[]"));
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT body FROM document_{table} WHERE 1 AND (expires IS NULL OR expires > 5)
             AND (pk, id) IN (SELECT pk, id FROM {elements} WHERE rank = 3 AND value = 2) ORDER BY pk, id"
        );
        let mut statement = connection.prepare(&sql).unwrap();
        let steps = statement
            .query_map([], |row| row.get::<_, String>(3))
            .unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let steps = steps.join("\n");
        assert!(steps.contains("(pk=? AND id=?)"), "{steps}");
        assert!(steps.contains("(rank=? AND value=?)"), "{steps}");
    }

    #[test]
    fn a_replaced_policy_and_a_deleted_container_leave_no_table() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        let tables = || -> i64 {
            let sql = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%elements%'";
            connection.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(ids(&connection, &container, "3"), 10);
        assert!(tables() > 0);
        container.replace(&connection, &definition("/*")).unwrap();
        assert_eq!(tables(), 0);
        let replaced = Container::find(&connection, "d", "c").unwrap();
        assert_eq!(ids(&connection, &replaced, "3"), 10);
        assert!(tables() > 0);
        replaced.delete(&connection).unwrap();
        assert_eq!(tables(), 0);
    }
}
