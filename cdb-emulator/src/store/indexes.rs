//! The SQLite indexes of a policy, and the indexes that a policy has.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rusqlite::Connection;
use serde_json::Value;

use super::columns::PathKeys;
use crate::error::ServiceError;
use crate::sql::ast::is_plain;

/// The type of the column of a rank. A missing value has the rank 0.
pub(super) const RANK_TYPE: &str = "INTEGER NOT NULL DEFAULT 0";

/// Creates a table of documents with the indexes of the policy: one per included scalar path, one
/// per composite. Each path of an index has two columns, the rank of the value's type and the value,
/// so that an index has the service's order over all types. Only a write that changes a column
/// changes its indexes. The prefix distinguishes the indexes from those of the table that it may
/// replace.
///
/// The body is the last column, because SQLite reads all pages of a large value to find the columns
/// after it.
///
/// Paths through arrays have no index: their conditions are evaluated on documents. Paths inside a
/// subtree (`/a/*`) have the indexes of `subtree.rs`.
pub(super) fn create_table(
    connection: &Connection,
    table: &str,
    prefix: &str,
    policy: &Value,
) -> Result<(), ServiceError> {
    let mut columns = String::new();
    for path in paths(policy) {
        let mut names = path.split('/').skip(1).peekable();
        if names.peek().is_none() || !names.all(is_plain) {
            return Err(ServiceError::bad_request(format!(
                "The indexing path '{path}' could not be accepted."
            )));
        }
        let PathKeys { rank, value, .. } = PathKeys::columns(path);
        columns.extend([&*rank, " ", RANK_TYPE, ", ", &*value, ", "]);
    }
    connection.execute_batch(&format!(
        "CREATE TABLE {table} (
            pk TEXT NOT NULL, id TEXT NOT NULL, epk TEXT NOT NULL, etag TEXT NOT NULL, lsn INTEGER NOT NULL,
            ts INTEGER NOT NULL, expires INTEGER, {columns}body TEXT NOT NULL,
            PRIMARY KEY (pk, id)) WITHOUT ROWID;
         CREATE INDEX {prefix}_lsn ON {table} (lsn);"
    ))?;
    for (paths, name) in indexes(policy) {
        create_index(connection, &format!("{prefix}_{name}"), table, &paths)?;
    }
    Ok(())
}

/// Creates an index of paths, each with whether it is descending.
pub(super) fn create_index(
    connection: &Connection,
    name: &str,
    table: &str,
    paths: &[(String, bool)],
) -> Result<(), ServiceError> {
    let columns = paths.iter().map(|(path, descending)| {
        let direction = if *descending { "DESC" } else { "ASC" };
        let PathKeys { rank, value, .. } = PathKeys::columns(path.clone());
        format!("{rank} {direction}, {value} {direction}")
    });
    let columns: Vec<String> = columns.collect();
    let columns = columns.join(", ");
    connection.execute_batch(&format!("CREATE INDEX {name} ON {table} ({columns})"))?;
    Ok(())
}

/// Returns the prefix of a container's index names.
pub(super) fn prefix(container: i64, generation: i64) -> String {
    if generation == 0 {
        format!("document_{container}")
    } else {
        format!("document_{container}_g{generation}")
    }
}

/// Returns the indexes of a policy: their stored paths, each with whether it is descending, and the
/// index name without its prefix. Includes the indexes inside subtrees for a
/// [planned policy](super::Container::planned_policy).
pub(crate) fn indexes(policy: &Value) -> impl Iterator<Item = (Vec<(String, bool)>, String)> {
    let included = policy["includedPaths"].as_array().into_iter().flatten();
    let scalar = included.filter_map(|entry| entry["path"].as_str()?.strip_suffix("/?"));
    let singles = scalar
        .filter(|path| !path.contains("[]"))
        .map(|path| vec![(unquote(path).into_owned(), false)]);
    let several = composites(policy).filter(|composite| !composite.is_empty());
    let all = singles.chain(several).enumerate();
    let subtrees = policy[SUBTREES].as_object().into_iter().flatten();
    let subtrees =
        subtrees.map(|(path, number)| (vec![(path.clone(), false)], subtree_name(number)));
    all.map(|(at, paths)| (paths, format!("path_{at}")))
        .chain(subtrees)
}

/// Returns the name of an index inside a subtree without its prefix.
pub(super) fn subtree_name(number: &Value) -> String {
    format!("subtree_{number}")
}

/// The member of a planned policy with the indexes inside subtrees, by path.
pub(super) const SUBTREES: &str = "_subtrees";

/// Returns the paths of the indexes of a policy. They have columns.
pub(super) fn paths(policy: &Value) -> BTreeSet<String> {
    let paths = indexes(policy).flat_map(|(paths, _)| paths);
    paths.map(|(path, _)| path).collect()
}

/// Returns the sort keys of a path in a container with a planned policy.
pub(crate) fn path_keys(policy: &Value, path: String) -> PathKeys {
    let mut known = indexes(policy).flat_map(|(paths, _)| paths);
    if known.any(|(known, _)| known == path) {
        PathKeys::columns(path)
    } else {
        PathKeys::in_body(path)
    }
}

/// Converts a policy path to a stored path: removes the quotation marks of names.
pub(crate) fn unquote(policy_path: &str) -> Cow<'_, str> {
    if !policy_path.contains('"') {
        return Cow::Borrowed(policy_path);
    }
    let mut out = String::new();
    let mut rest = policy_path;
    while let Some(name) = rest.strip_prefix('/') {
        let (name, after) = match name.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"').unwrap_or(quoted.len());
                (&quoted[..end], quoted.get(end + 1..).unwrap_or_default())
            }
            None => name.split_at(name.find('/').unwrap_or(name.len())),
        };
        out.push('/');
        out.push_str(name);
        rest = after;
    }
    Cow::Owned(out)
}

/// Returns whether the policy indexes this stored path.
pub(crate) fn is_included(policy: &Value, path: &str) -> bool {
    if matches!(path, "/id" | "/_ts") {
        return true;
    }
    let mut best: Option<(usize, bool)> = None;
    for (list, included) in [("includedPaths", true), ("excludedPaths", false)] {
        for entry in policy[list].as_array().into_iter().flatten() {
            let Some(entry) = entry["path"].as_str() else {
                continue;
            };
            let precision = if let Some(exact) = entry.strip_suffix("/?") {
                (unquote(exact) == path).then_some(usize::MAX)
            } else if let Some(prefix) = entry.strip_suffix("/*") {
                let prefix = unquote(prefix);
                let below = path.strip_prefix(&*prefix);
                below
                    .is_some_and(|below| below.is_empty() || below.starts_with('/'))
                    .then_some(prefix.len())
            } else {
                None
            };
            if let Some(precision) = precision
                && best.is_none_or(|(known, _)| precision > known)
            {
                best = Some((precision, included));
            }
        }
    }
    best.is_some_and(|(_, included)| included)
}

/// Returns whether a composite index serves this sort: exactly these paths, with equal or all
/// inverted directions.
pub(crate) fn has_composite(policy: &Value, sort: &[(String, bool)]) -> bool {
    composite_of(policy, sort, true).is_some()
}

/// Returns the composite indexes of a policy: paths, each with whether it is descending.
pub(crate) fn composites(policy: &Value) -> impl Iterator<Item = Vec<(String, bool)>> {
    let composites = policy["compositeIndexes"].as_array().into_iter().flatten();
    composites.filter_map(Value::as_array).map(|composite| {
        let paths = composite.iter().map(|path| {
            let name = unquote(path["path"].as_str().unwrap_or_default());
            (name.into_owned(), path["order"] == "descending")
        });
        paths.collect()
    })
}

/// Returns whether the policy includes exactly this path, which then has a SQLite index.
pub(crate) fn has_range_index(policy: &Value, path: &str) -> bool {
    let included = policy["includedPaths"].as_array().into_iter().flatten();
    let mut exact = included.filter_map(|entry| entry["path"].as_str()?.strip_suffix("/?"));
    exact.any(|exact| unquote(exact) == path)
}

/// Returns the composite index with exactly these paths. For a sort, all directions are equal or
/// all are inverted; for a filter, directions are irrelevant.
pub(crate) fn composite_of(
    policy: &Value,
    wanted: &[(String, bool)],
    sorts: bool,
) -> Option<Vec<(String, bool)>> {
    let mut serving = composites(policy).filter(|paths| {
        let same = |flip: bool| {
            let pairs = paths.iter().zip(wanted);
            let mut pairs = pairs.map(|((path, down), (wanted, wanted_down))| {
                path == wanted && (!sorts || *down == (*wanted_down != flip))
            });
            pairs.all(|same| same)
        };
        paths.len() == wanted.len() && (same(false) || same(true))
    });
    serving.next()
}
