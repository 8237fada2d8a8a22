//! The number of index entries of a document, which a write is charged for.
//!
//! A document has one entry per scalar value under an included path, including each array element.
//! It has one entry per explicitly included path that it lacks: "all explicitly included paths have
//! values added to the index for each item in the container, even if the path is undefined"
//! (index-policy). It has one entry per composite whose values it all has.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::store::indexes::unquote;

/// System properties, which are part of the base charge.
const SYSTEM: [&str; 7] = ["id", "ttl", "_rid", "_self", "_etag", "_attachments", "_ts"];

/// A path of the policy.
struct Entry {
    segments: Vec<String>,
    /// `/?`: only this value and not its subtree.
    exact: bool,
    included: bool,
    /// Whether the document has a value at the path.
    met: Cell<bool>,
}

/// Counts the index entries of a document under a policy.
pub(crate) fn count(policy: &Value, document: &Map<String, Value>) -> usize {
    if policy["indexingMode"]
        .as_str()
        .is_some_and(|mode| mode.eq_ignore_ascii_case("none"))
    {
        return 0;
    }
    let mut entries = Vec::new();
    for (list, included) in [("includedPaths", true), ("excludedPaths", false)] {
        let listed = policy[list].as_array().into_iter().flatten();
        let paths = listed.filter_map(|entry| entry["path"].as_str());
        entries.extend(paths.filter_map(|path| entry(path, included)));
    }
    let root = entries.iter().find(|entry| entry.segments.is_empty());
    let inherited = root.is_some_and(|entry| entry.included);
    let all: Vec<&Entry> = entries.iter().collect();
    let mut found = 0;
    for (name, value) in document {
        if !SYSTEM.contains(&&**name) {
            found += below(value, 1, &continuing(&all, 0, name), inherited);
        }
    }
    let missing = entries.iter().filter(|entry| {
        let explicit = entry.included && !entry.segments.is_empty();
        let system = SYSTEM.contains(&entry.segments.first().map_or("", String::as_str));
        explicit && !system && !entry.met.get()
    });
    found + missing.count() + composites(policy, document)
}

fn entry(path: &str, included: bool) -> Option<Entry> {
    let (path, exact) = match (path.strip_suffix("/?"), path.strip_suffix("/*")) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return None,
    };
    let plain = unquote(path);
    let segments = plain.split('/').filter(|name| !name.is_empty());
    Some(Entry {
        segments: segments.map(str::to_owned).collect(),
        exact,
        included,
        met: Cell::new(false),
    })
}

/// Returns the paths whose next segment is this name.
fn continuing<'e>(live: &[&'e Entry], depth: usize, name: &str) -> Vec<&'e Entry> {
    let goes_on = |entry: &&&Entry| entry.segments.get(depth).is_some_and(|next| next == name);
    live.iter().filter(goes_on).copied().collect()
}

/// Counts the entries of a value at `depth`, below the paths in `live`.
fn below(value: &Value, depth: usize, live: &[&Entry], inherited: bool) -> usize {
    let mut subtree = inherited;
    let mut exact = None;
    for entry in live.iter().filter(|entry| entry.segments.len() == depth) {
        entry.met.set(true);
        if entry.exact {
            exact = Some(entry.included);
        } else {
            subtree = entry.included;
        }
    }
    match value {
        Value::Array(items) => {
            let live = continuing(live, depth, "[]");
            let items = items.iter();
            items
                .map(|item| below(item, depth + 1, &live, subtree))
                .sum()
        }
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| below(value, depth + 1, &continuing(live, depth, name), subtree))
            .sum(),
        _ => usize::from(exact.unwrap_or(subtree)),
    }
}

/// Counts the entries in composite indexes. An array in a path has one entry per element.
fn composites(policy: &Value, document: &Map<String, Value>) -> usize {
    let listed = policy["compositeIndexes"].as_array().into_iter().flatten();
    let composites = listed.filter_map(Value::as_array);
    composites
        .map(|composite| {
            let mut entries = 1;
            for path in composite {
                let path = unquote(path["path"].as_str().unwrap_or_default());
                let mut names = path.split('/').filter(|name| !name.is_empty());
                let first = names.next().and_then(|name| document.get(name));
                let names: Vec<&str> = names.collect();
                entries *= first.map_or(0, |value| values(value, &names));
            }
            entries
        })
        .sum()
}

fn values(value: &Value, names: &[&str]) -> usize {
    match (names.split_first(), value) {
        (None, _) => 1,
        (Some((&"[]", rest)), Value::Array(items)) => {
            items.iter().map(|item| values(item, rest)).sum()
        }
        (Some((name, rest)), Value::Object(object)) => {
            object.get(*name).map_or(0, |value| values(value, rest))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(policy: &Value) -> usize {
        let document = json!({
            "id": "1", "_ts": 1, "a": 1, "b": { "c": 2, "d": [1, 2, { "e": 3 }] }, "tags": ["x", "y", "z"],
        });
        count(policy, document.as_object().unwrap())
    }

    #[test]
    fn only_included_values_have_entries() {
        let paths = |paths: &[&str]| -> Vec<Value> {
            paths.iter().map(|path| json!({ "path": path })).collect()
        };
        for (included, excluded, expected) in [
            (&["/*"][..], &["/\"_etag\"/?"][..], 8),
            (&["/*"], &["/b/*"], 4),
            (&["/*"], &["/b/*", "/tags/[]/?"], 1),
            (&["/a/?"], &["/*"], 1),
            (&["/a/?", "/missing/?"], &["/*"], 2),
            (&["/b/*"], &["/*"], 4),
            (&["/b/d/[]/e/?"], &["/*"], 1),
            (&["/tags/[]/?"], &["/*"], 3),
            (&["/*"], &["/b/?"], 8),
            (&[], &["/*"], 0),
        ] {
            let policy =
                json!({ "includedPaths": paths(included), "excludedPaths": paths(excluded) });
            assert_eq!(terms(&policy), expected, "{policy}");
        }
        assert_eq!(
            terms(&json!({ "indexingMode": "none", "includedPaths": [{ "path": "/*" }] })),
            0
        );
    }

    #[test]
    fn a_composite_has_an_entry_if_all_its_values_exist() {
        let composite = |paths: [&str; 2]| {
            let paths = paths.map(|path| json!({ "path": path }));
            json!({ "excludedPaths": [{ "path": "/*" }], "compositeIndexes": [paths] })
        };
        assert_eq!(terms(&composite(["/a", "/b/c"])), 1);
        assert_eq!(terms(&composite(["/a", "/tags/[]"])), 3);
        assert_eq!(terms(&composite(["/a", "/missing"])), 0);
    }
}
