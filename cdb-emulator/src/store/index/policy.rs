//! The SQLite indexes of a policy, and the indexes that a policy has.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::Value;

use super::columns::PathKeys;
use super::entries::{IndexedPaths, unquote};
use crate::protocol::ServiceError;
use crate::sql::ast::is_plain;

/// The type of the column of a rank. A missing value has the rank 0.
const RANK_TYPE: &str = "INTEGER NOT NULL DEFAULT 0";

/// The most paths of a policy that have columns; SQLite allows 2,000 columns. The indexes of further
/// paths are on expressions.
const MOST_COLUMN_PATHS: usize = 900;

/// Creates a table of documents with columns for the indexes of the policy: one index per included
/// scalar path, one per composite. Each path of an index has two columns, the rank of the value's type and the value,
/// so that an index has the service's order over all types. Only a write that changes a column
/// changes its indexes.
///
/// The body is the last column, because SQLite reads all pages of a large value to find the columns
/// after it. The table has row ids: without them SQLite compares keys inside of cells with bodies.
/// So each index ends with the primary key, which sorts rows with equal values.
///
/// Paths through arrays and inside a subtree (`/a/*`) have no index: their conditions are evaluated
/// on documents.
pub(in crate::store) fn create_table(
    connection: &Connection,
    table: &str,
    policy: &Policy,
) -> Result<(), ServiceError> {
    for (path, _) in policy.indexes.iter().flat_map(|(paths, _)| paths) {
        let mut names = path.split('/').skip(1).peekable();
        if names.peek().is_none() || !names.all(is_plain) {
            return Err(ServiceError::bad_request(format!(
                "The indexing path '{path}' could not be accepted."
            )));
        }
    }
    let mut columns = String::new();
    for PathKeys { rank, value, .. } in policy.columns() {
        columns.extend([rank, " ", RANK_TYPE, ", ", value, ", "]);
    }
    connection.execute_batch(&format!(
        "CREATE TABLE {table} (
            pk TEXT NOT NULL, id TEXT NOT NULL, epk TEXT NOT NULL, etag TEXT NOT NULL, lsn INTEGER NOT NULL,
            ts INTEGER NOT NULL, expires INTEGER, {columns}body TEXT NOT NULL,
            PRIMARY KEY (pk, id));"
    ))?;
    Ok(())
}

/// Creates the index of the LSN and those of the policy.
pub(in crate::store) fn create_indexes(
    connection: &Connection,
    table: &str,
    policy: &Policy,
) -> Result<(), ServiceError> {
    connection.execute_batch(&format!(
        "CREATE INDEX {table}_lsn ON {table} (lsn, pk, id)"
    ))?;
    for (paths, name) in &policy.indexes {
        let keys = paths
            .iter()
            .map(|(path, down)| (policy.path_keys(path.clone()), *down));
        create_index(connection, &format!("{table}_{name}"), table, keys)?;
    }
    Ok(())
}

/// Creates an index of sort keys, each with whether it is descending.
fn create_index(
    connection: &Connection,
    name: &str,
    table: &str,
    keys: impl IntoIterator<Item = (PathKeys, bool)>,
) -> Result<(), ServiceError> {
    let columns = keys.into_iter().map(|(keys, descending)| {
        let direction = if descending { "DESC" } else { "ASC" };
        let PathKeys { rank, value, .. } = keys;
        format!("{rank} {direction}, {value} {direction}")
    });
    let columns: Vec<String> = columns.collect();
    let columns = columns.join(", ");
    connection.execute_batch(&format!(
        "CREATE INDEX {name} ON {table} ({columns}, pk, id)"
    ))?;
    Ok(())
}

/// An indexing policy, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    json: Value,
    indexed_paths: IndexedPaths,
    /// The paths that are named exactly (`/a/?`), each with whether it is included.
    exact: BTreeMap<String, bool>,
    /// The paths of subtrees (`/a/*`), each with whether it is included.
    subtrees: Vec<(String, bool)>,
    /// The paths with a range index.
    ranges: Vec<String>,
    composites: Vec<Vec<(String, bool)>>,
    indexes: Vec<Index>,
    columns: BTreeMap<String, PathKeys>,
}

/// The stored paths of an index, each with whether it is descending, and the index name without its
/// prefix.
pub(crate) type Index = (Vec<(String, bool)>, String);

impl Policy {
    /// Parses a policy.
    pub(crate) fn of(json: &Value) -> Self {
        let mut policy = Self {
            json: json.clone(),
            indexed_paths: IndexedPaths::of(json),
            composites: composites(json).collect(),
            ..Self::default()
        };
        for (list, included) in [("includedPaths", true), ("excludedPaths", false)] {
            let entries = json[list].as_array().into_iter().flatten();
            for entry in entries.filter_map(|entry| entry["path"].as_str()) {
                policy.add(entry, included);
            }
        }
        let singles = policy.ranges.iter().filter(|path| !path.contains("[]"));
        let singles = singles.map(|path| vec![(path.clone(), false)]);
        let several = policy.composites.iter().filter(|paths| !paths.is_empty());
        let all = singles.chain(several.cloned()).enumerate();
        policy.indexes = all
            .map(|(at, paths)| (paths, format!("path_{at}")))
            .collect();
        let named = policy.indexes.iter().flat_map(|(paths, _)| paths);
        let named = named.map(|(path, _)| path).take(MOST_COLUMN_PATHS);
        let columns = named.map(|path| (path.clone(), PathKeys::columns(path.clone())));
        policy.columns = columns.collect();
        policy
    }

    /// Adds an entry of the lists of paths.
    fn add(&mut self, entry: &str, included: bool) {
        if let Some(path) = entry.strip_suffix("/?") {
            let path = unquote(path).into_owned();
            if included {
                self.ranges.push(path.clone());
            }
            self.exact.entry(path).or_insert(included);
        } else if let Some(path) = entry.strip_suffix("/*") {
            self.subtrees.push((unquote(path).into_owned(), included));
        }
    }

    /// Returns the policy as the definition of its container has it.
    pub(crate) fn json(&self) -> &Value {
        &self.json
    }

    /// Returns what the charge of a write depends on.
    pub(crate) fn indexed_paths(&self) -> &IndexedPaths {
        &self.indexed_paths
    }

    /// Returns the sort keys of all paths of indexes.
    pub(in crate::store) fn columns(&self) -> impl Iterator<Item = &PathKeys> {
        self.columns.values()
    }

    /// Returns the sort keys of a path.
    pub(crate) fn path_keys(&self, path: String) -> PathKeys {
        let columns = self.columns.get(&path).cloned();
        columns.unwrap_or_else(|| PathKeys::in_body(path))
    }

    /// Returns the indexes.
    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// Returns whether the policy indexes this stored path.
    pub(crate) fn is_included(&self, path: &str) -> bool {
        if matches!(path, "/id" | "/_ts") {
            return true;
        }
        if let Some(included) = self.exact.get(path) {
            return *included;
        }
        let mut best: Option<(usize, bool)> = None;
        for (subtree, included) in &self.subtrees {
            let below = path.strip_prefix(&**subtree);
            if below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
                && best.is_none_or(|(known, _)| subtree.len() > known)
            {
                best = Some((subtree.len(), *included));
            }
        }
        best.is_some_and(|(_, included)| included)
    }

    /// Returns whether a composite index serves this sort: exactly these paths, with equal or all
    /// inverted directions.
    pub(crate) fn has_composite(&self, sort: &[(String, bool)]) -> bool {
        self.composite_of(sort, true).is_some()
    }

    /// Returns whether the policy includes exactly this path, which then has a SQLite index.
    pub(crate) fn has_range_index(&self, path: &str) -> bool {
        self.ranges.iter().any(|exact| exact == path)
    }

    /// Returns the composite index with exactly these paths. For a sort, all directions are equal or
    /// all are inverted; for a filter, directions are irrelevant.
    pub(crate) fn composite_of(
        &self,
        wanted: &[(String, bool)],
        sorts: bool,
    ) -> Option<&Vec<(String, bool)>> {
        self.composites.iter().find(|paths| {
            let same = |flip: bool| {
                let pairs = paths.iter().zip(wanted);
                let mut pairs = pairs.map(|((path, down), (wanted, wanted_down))| {
                    path == wanted && (!sorts || *down == (*wanted_down != flip))
                });
                pairs.all(|same| same)
            };
            paths.len() == wanted.len() && (same(false) || same(true))
        })
    }
}

/// Returns the composite indexes of a policy: paths, each with whether it is descending.
fn composites(policy: &Value) -> impl Iterator<Item = Vec<(String, bool)>> {
    let composites = policy["compositeIndexes"].as_array().into_iter().flatten();
    composites.filter_map(Value::as_array).map(|composite| {
        let paths = composite.iter().map(|path| {
            let name = unquote(path["path"].as_str().unwrap_or_default());
            (name.into_owned(), path["order"] == "descending")
        });
        paths.collect()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use crate::op::rows_of;
    use crate::store::{Container, Database, Store, StoredDocument};

    #[test]
    fn a_policy_may_have_more_paths_than_sqlite_allows_columns() {
        const PATHS: usize = 1500;
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        Database::create(&connection, "d", 0).unwrap();
        let included = (0..PATHS).map(|n| json!({ "path": format!("/p{n}/?") }));
        let definition = json!({
            "id": "c", "partitionKey": { "paths": ["/id"] }, "indexingPolicy": {
                "includedPaths": included.collect::<Vec<_>>(), "excludedPaths": [{ "path": "/*" }],
            },
        });
        let container = Container::create(&connection, "d", &definition, 1, 0).unwrap();
        let document = StoredDocument {
            pk: "1".to_owned(),
            id: "1".to_owned(),
            body: json!({ "id": "1", "p0": 7, "p1499": 8 }).to_string(),
            epk: String::new(),
            etag: String::new(),
            lsn: 1,
            ts: 0,
            expires: None,
        };
        container.write(&connection, &document).unwrap();
        for (condition, count) in [("c.p0 = 7", 1), ("c.p1499 = 8", 1), ("c.p1499 = 7", 0)] {
            let text = format!("SELECT * FROM c WHERE {condition}");
            let rows = rows_of(&connection, &container, &text, HashMap::new(), 10).unwrap();
            assert_eq!(rows.len(), count, "{condition}");
        }
    }
}
