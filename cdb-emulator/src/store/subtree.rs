//! The SQLite indexes of paths inside the subtrees that a policy includes (`/a/*`).
//!
//! The policy does not name these paths, so the first document with a scalar value at a path creates
//! its index. An index transformation drops them with the table; later writes create them again.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::columns::PathKeys;
use super::container::Container;
use super::indexes::{Policy, RANK_TYPE, create_index, subtree_name};
use crate::error::ServiceError;
use crate::sql::ast::is_plain;

/// The most such indexes of a container. Conditions on more paths are evaluated on documents.
const MOST: usize = 32;

pub(super) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS subtree_index (
            number INTEGER PRIMARY KEY AUTOINCREMENT, container INTEGER NOT NULL, path TEXT NOT NULL,
            UNIQUE (container, path));",
    )?;
    Ok(())
}

impl Container {
    /// Creates the indexes of the paths that no earlier document had.
    pub(super) fn index_subtrees(
        &self,
        connection: &Connection,
        document: &Value,
    ) -> Result<(), ServiceError> {
        let policy = self.policy();
        let mut paths = Vec::new();
        for subtree in policy.included_subtrees() {
            let value = subtree
                .split('/')
                .skip(1)
                .try_fold(document, |at, name| at.get(name));
            scalars(value.unwrap_or(&Value::Null), subtree, &mut paths);
        }
        paths.retain(|path| self.subtree_indexes[&**path].is_null() && policy.is_included(path));
        let known = self
            .subtree_indexes
            .as_object()
            .map_or(0, serde_json::Map::len);
        // An index transformation would drop a new index.
        if self.former.is_some() {
            return Ok(());
        }
        for path in paths.iter().take(MOST.saturating_sub(known)) {
            self.create_subtree_index(connection, path)?;
        }
        Ok(())
    }

    fn create_subtree_index(
        &self,
        connection: &Connection,
        path: &str,
    ) -> Result<(), ServiceError> {
        let sql = "INSERT OR IGNORE INTO subtree_index (container, path) VALUES (?, ?)";
        if connection.execute(sql, params![self.number, path])? == 0 {
            return Ok(());
        }
        let name = subtree_name(&connection.last_insert_rowid().into());
        let name = format!("{}_{name}", self.index_prefix());
        let table = format!("document_{}", self.number);
        let column = PathKeys::columns(path.to_owned());
        if !self.policy().has_columns(path) {
            let found = PathKeys::in_body(path.to_owned());
            connection.execute_batch(&format!(
                "ALTER TABLE {table} ADD COLUMN {} {RANK_TYPE};
                 ALTER TABLE {table} ADD COLUMN {};
                 UPDATE {table} SET {} = {}, {} = {} WHERE {} > 0",
                column.rank,
                column.value,
                column.rank,
                found.rank,
                column.value,
                found.value,
                found.rank
            ))?;
        }
        create_index(connection, &name, &table, [(column, false)])
    }

    /// Returns the policy whose columns a write fills. A request may have created indexes inside
    /// subtrees after it has read the container.
    pub(super) fn written_policy(
        &self,
        connection: &Connection,
    ) -> Result<Arc<Policy>, ServiceError> {
        if self.indexed_policy().included_subtrees().next().is_none() {
            return Ok(self.indexed_policy().clone());
        }
        let sql = "SELECT json_group_object(path, number) FROM subtree_index WHERE container = ?
                   HAVING count(*) > 0";
        let numbers: Option<String> = connection
            .prepare_cached(sql)?
            .query_row([self.number], |row| row.get(0))
            .optional()?;
        let numbers = numbers.map(|numbers| serde_json::from_str(&numbers));
        Ok(self.with_subtrees(&numbers.transpose()?.unwrap_or_default()))
    }
}

/// Collects the paths of the scalar values inside the objects of a value.
fn scalars(value: &Value, path: &str, paths: &mut Vec<String>) {
    let Value::Object(object) = value else { return };
    for (name, value) in object.iter().filter(|(name, _)| is_plain(name)) {
        let path = format!("{path}/{name}");
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => paths.push(path),
            Value::Object(_) => scalars(value, &path, paths),
            Value::Array(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;
    use crate::op::rows_of;
    use crate::plan;
    use crate::sql;
    use crate::store::{Database, Store, StoredDocument};

    fn write(connection: &Connection, container: &Container, n: usize, labels: &Value) {
        let id = format!("{n:03}");
        let document = StoredDocument {
            pk: id.clone(),
            body: json!({ "id": id, "labels": labels }).to_string(),
            id,
            epk: String::new(),
            etag: String::new(),
            lsn: 1,
            ts: 0,
            expires: None,
        };
        container.write(connection, &document).unwrap();
    }

    #[test]
    fn conditions_and_sorts_inside_a_subtree_use_indexes() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        Database::create(&connection, "d", 0).unwrap();
        let definition = json!({
            "id": "c", "partitionKey": { "paths": ["/id"] }, "indexingPolicy": {
                "includedPaths": [{ "path": "/labels/*" }],
                "excludedPaths": [{ "path": "/*" }, { "path": "/labels/secret/*" }],
            },
        });
        let created = Container::create(&connection, "d", &definition, 1, 0).unwrap();
        assert_eq!(created.planned_policy().as_ref(), created.policy());
        for n in 0..200 {
            let labels =
                json!({ "color": n % 3, "inner": { "size": n }, "list": [n], "secret": n });
            write(&connection, &created, n, &labels);
        }
        let container = Container::find(&connection, "d", "c").unwrap();
        let indexed = container.subtree_indexes.as_object().unwrap();
        let paths: Vec<&String> = indexed.keys().collect();
        assert_eq!(paths, ["/labels/color", "/labels/inner/size"]);
        for (text, count, path) in [
            ("c.labels.inner.size = 7", 1, "/labels/inner/size"),
            (
                "c.labels.color = 1 AND c.labels.inner.size > 190",
                3,
                "/labels/inner/size",
            ),
            ("c.labels.color = 1", 67, "/labels/color"),
        ] {
            let text = format!("SELECT * FROM c WHERE {text} ORDER BY c.labels.inner.size");
            let rows = rows_of(&connection, &container, &text, (HashMap::new(), 10)).unwrap();
            assert_eq!(rows.len(), count, "{text}");
            let select = sql::parse(&text).unwrap();
            let policy = container.planned_policy();
            let pieces = plan::pieces(&select, &HashMap::new(), &policy, false);
            let name = subtree_name(&container.subtree_indexes[path]);
            let mut known = pieces[0].candidates.iter().map(plan::CandidateIndex::index);
            let sorted = pieces[0].order.index();
            assert!(
                sorted == Some(&name) || known.any(|known| known == name),
                "{pieces:?}"
            );
        }
        for n in 0..100 {
            write(
                &connection,
                &container,
                n,
                &json!({ format!("more-{n}"): n }),
            );
        }
        let container = Container::find(&connection, "d", "c").unwrap();
        assert!(container.subtree_indexes.as_object().unwrap().len() >= MOST);
    }

    #[test]
    fn a_transformation_and_a_deletion_forget_the_indexes() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        Database::create(&connection, "d", 0).unwrap();
        let policy = |path: &str| {
            json!({
                "id": "c", "partitionKey": { "paths": ["/id"] }, "indexingPolicy": {
                    "includedPaths": [{ "path": "/labels/*" }, { "path": path }],
                    "excludedPaths": [{ "path": "/*" }],
                },
            })
        };
        let find = || Container::find(&connection, "d", "c").unwrap();
        Container::create(&connection, "d", &policy("/a/?"), 1, 0).unwrap();
        write(&connection, &find(), 1, &json!({ "color": 1 }));
        find().replace(&connection, &policy("/b/?")).unwrap();
        assert!(find().subtree_indexes.is_null());
        write(&connection, &find(), 2, &json!({ "color": 1 }));
        let text = "SELECT * FROM c WHERE c.labels.color = 1";
        assert!(!find().subtree_indexes.is_null());
        let rows = rows_of(&connection, &find(), text, (HashMap::new(), 10)).unwrap();
        assert_eq!(rows.len(), 2);
        find().delete(&connection).unwrap();
        let left: i64 = connection
            .query_row("SELECT count(*) FROM subtree_index", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 0);
    }
}
