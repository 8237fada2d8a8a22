//! One SQLite index per index of the policy.

use rusqlite::Connection;
use serde_json::Value;

use super::columns::{json_rank, json_value};
use crate::error::ServiceError;
use crate::sql::ast::is_plain;

/// Creates a table of documents with the indexes that the policy asks for: one per included scalar path, one per
/// composite. Each path is two columns, the place of the value's type and the value, so that an index has the service's
/// order over all types. The prefix tells its indexes from those of a table in whose place it may come.
///
/// The body is the last column: what stands behind a large one is found only by following all its pages.
///
/// Paths in a subtree (`/a/*`) and through arrays have no index: their conditions are evaluated on documents.
pub(super) fn create_table(
    connection: &Connection,
    table: &str,
    prefix: &str,
    policy: &Value,
) -> Result<(), ServiceError> {
    connection.execute_batch(&format!(
        "CREATE TABLE {table} (
            pk TEXT NOT NULL, id TEXT NOT NULL, epk TEXT NOT NULL, etag TEXT NOT NULL, lsn INTEGER NOT NULL,
            ts INTEGER NOT NULL, expires INTEGER, body TEXT NOT NULL,
            PRIMARY KEY (pk, id)) WITHOUT ROWID;
         CREATE INDEX {prefix}_lsn ON {table} (lsn);"
    ))?;
    for (paths, name) in indexes(policy) {
        let columns: Result<Vec<String>, ServiceError> = paths
            .iter()
            .map(|(path, descending)| expression(path, *descending))
            .collect();
        connection.execute_batch(&format!(
            "CREATE INDEX {prefix}_{name} ON {table} ({})",
            columns?.join(", ")
        ))?;
    }
    Ok(())
}

/// What the names of a container's indexes begin with.
pub(super) fn prefix(container: i64, generation: i64) -> String {
    if generation == 0 {
        format!("document_{container}")
    } else {
        format!("document_{container}_g{generation}")
    }
}

/// The indexes that a policy asks for: stored paths, each with whether it descends, and what the index is called behind
/// the prefix.
pub(crate) fn indexes(policy: &Value) -> impl Iterator<Item = (Vec<(String, bool)>, String)> {
    let included = policy["includedPaths"].as_array().into_iter().flatten();
    let scalar = included.filter_map(|entry| entry["path"].as_str()?.strip_suffix("/?"));
    let singles = scalar
        .filter(|path| !path.contains("[]"))
        .map(|path| vec![(unquote(path), false)]);
    let several = composites(policy).filter(|composite| !composite.is_empty());
    let all = singles.chain(several).enumerate();
    all.map(|(at, paths)| (paths, format!("path_{at}")))
}

/// The expressions of a path, written exactly as queries write them, or SQLite would not see that they are the same.
fn expression(path: &str, descending: bool) -> Result<String, ServiceError> {
    let mut names = path.split('/').skip(1).peekable();
    if names.peek().is_none() || !names.all(is_plain) {
        return Err(ServiceError::bad_request(format!(
            "The indexing path '{path}' could not be accepted."
        )));
    }
    let direction = if descending { "DESC" } else { "ASC" };
    let (rank, value) = (json_rank(path), json_value(path));
    Ok(format!("{rank} {direction}, {value} {direction}"))
}

/// A policy path as a plain stored path: names in quotation marks lose them.
pub(crate) fn unquote(policy_path: &str) -> String {
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
    out
}

/// Whether the policy has a range index on this stored path.
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
                (prefix.is_empty() || path == prefix || path.starts_with(&format!("{prefix}/")))
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

/// Whether the policy has a composite index that serves this sort: exactly these paths, all directions or all inverted.
pub(crate) fn has_composite(policy: &Value, sort: &[(String, bool)]) -> bool {
    composite_of(policy, sort, true).is_some()
}

/// The composite indexes of a policy: paths, each with whether it descends.
pub(crate) fn composites(policy: &Value) -> impl Iterator<Item = Vec<(String, bool)>> {
    let composites = policy["compositeIndexes"].as_array().into_iter().flatten();
    composites.filter_map(Value::as_array).map(|composite| {
        let paths = composite.iter().map(|path| {
            let name = unquote(path["path"].as_str().unwrap_or_default());
            (name, path["order"] == "descending")
        });
        paths.collect()
    })
}

/// Whether the policy includes exactly this path, so that it has an index of its own here.
pub(crate) fn has_range_index(policy: &Value, path: &str) -> bool {
    let included = policy["includedPaths"].as_array().into_iter().flatten();
    let mut exact = included.filter_map(|entry| entry["path"].as_str()?.strip_suffix("/?"));
    exact.any(|exact| unquote(exact) == path)
}

/// The composite index with exactly these paths, each with whether it descends. For a sort all directions are equal or
/// all are inverted; for a filter they do not matter.
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
