//! The number of index entries of a document, which a write is charged for.
//!
//! A document has one entry per scalar value under an included path, including each array element.
//! It has one entry per explicitly included path that it lacks: "all explicitly included paths have
//! values added to the index for each item in the container, even if the path is undefined"
//! (index-policy). It has one entry per composite whose values it all has.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::{Map, Value};

/// System properties, which are part of the base charge.
const SYSTEM: [&str; 7] = ["id", "ttl", "_rid", "_self", "_etag", "_attachments", "_ts"];

/// What a policy indexes, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IndexedPaths {
    entries: Vec<Entry>,
    /// The names on the paths of each composite.
    composites: Vec<Vec<Vec<String>>>,
}

/// A path of the policy.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    segments: Vec<String>,
    /// `/?`: only this value and not its subtree.
    exact: bool,
    included: bool,
}

/// A count of the entries of one document.
struct Count<'p> {
    entries: &'p [Entry],
    /// Whether the document has a value at the path of each entry.
    met: Vec<Cell<bool>>,
}

impl IndexedPaths {
    /// Parses a policy.
    pub(crate) fn of(policy: &Value) -> Self {
        let mode = policy["indexingMode"].as_str().unwrap_or_default();
        if mode.eq_ignore_ascii_case("none") {
            return Self::default();
        }
        let mut entries = Vec::new();
        for (list, included) in [("includedPaths", true), ("excludedPaths", false)] {
            let listed = policy[list].as_array().into_iter().flatten();
            let paths = listed.filter_map(|entry| entry["path"].as_str());
            entries.extend(paths.filter_map(|path| entry(path, included)));
        }
        let composites = policy["compositeIndexes"].as_array().into_iter().flatten();
        let composites = composites.filter_map(Value::as_array).map(|composite| {
            let paths = composite.iter();
            let paths = paths.map(|path| path["path"].as_str().unwrap_or_default());
            paths.map(names).collect()
        });
        Self {
            composites: composites.collect(),
            entries,
        }
    }

    /// Counts the index entries of a document.
    pub(crate) fn count(&self, document: &Map<String, Value>) -> usize {
        let entries = &self.entries;
        let count = Count {
            entries,
            met: vec![Cell::new(false); entries.len()],
        };
        let root = entries.iter().find(|entry| entry.segments.is_empty());
        let inherited = root.is_some_and(|entry| entry.included);
        let all: Vec<usize> = (0..entries.len()).collect();
        let mut found = 0;
        for (name, value) in document {
            if !SYSTEM.contains(&&**name) {
                found += count.below(value, 1, &count.continuing(&all, 0, name), inherited);
            }
        }
        let missing = entries.iter().zip(&count.met).filter(|(entry, met)| {
            let explicit = entry.included && !entry.segments.is_empty();
            let system = SYSTEM.contains(&entry.segments.first().map_or("", String::as_str));
            explicit && !system && !met.get()
        });
        let composites = self
            .composites
            .iter()
            .map(|paths| composite(paths, document));
        found + missing.count() + composites.sum::<usize>()
    }
}

fn entry(path: &str, included: bool) -> Option<Entry> {
    let (path, exact) = match (path.strip_suffix("/?"), path.strip_suffix("/*")) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return None,
    };
    Some(Entry {
        segments: names(path),
        exact,
        included,
    })
}

/// Returns the names on a path of a policy.
fn names(path: &str) -> Vec<String> {
    let plain = unquote(path);
    let names = plain.split('/').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

impl Count<'_> {
    /// Returns the paths whose next segment is this name.
    fn continuing(&self, live: &[usize], depth: usize, name: &str) -> Vec<usize> {
        let goes_on = |at: &&usize| {
            let next = self.entries[**at].segments.get(depth);
            next.is_some_and(|next| next == name)
        };
        live.iter().filter(goes_on).copied().collect()
    }

    /// Counts the entries of a value at `depth`, below the paths in `live`.
    fn below(&self, value: &Value, depth: usize, live: &[usize], inherited: bool) -> usize {
        if live.is_empty() && !inherited {
            return 0;
        }
        let mut subtree = inherited;
        let mut exact = None;
        for at in live {
            let entry = &self.entries[*at];
            if entry.segments.len() != depth {
                continue;
            }
            self.met[*at].set(true);
            if entry.exact {
                exact = Some(entry.included);
            } else {
                subtree = entry.included;
            }
        }
        match value {
            Value::Array(items) => {
                let live = self.continuing(live, depth, "[]");
                let items = items.iter();
                items
                    .map(|item| self.below(item, depth + 1, &live, subtree))
                    .sum()
            }
            Value::Object(object) => object
                .iter()
                .map(|(name, value)| {
                    let live = self.continuing(live, depth, name);
                    self.below(value, depth + 1, &live, subtree)
                })
                .sum(),
            _ => usize::from(exact.unwrap_or(subtree)),
        }
    }
}

/// Counts the entries in a composite index. An array in a path has one entry per element.
fn composite(paths: &[Vec<String>], document: &Map<String, Value>) -> usize {
    let counts = paths.iter().map(|names| {
        let (first, rest) = names.split_first()?;
        Some(values(document.get(first)?, rest))
    });
    counts.map(Option::unwrap_or_default).product()
}

fn values(value: &Value, names: &[String]) -> usize {
    match (names.split_first(), value) {
        (None, _) => 1,
        (Some((name, rest)), Value::Array(items)) if name == "[]" => {
            items.iter().map(|item| values(item, rest)).sum()
        }
        (Some((name, rest)), Value::Object(object)) => {
            object.get(name).map_or(0, |value| values(value, rest))
        }
        _ => 0,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(policy: &Value) -> usize {
        let document = json!({
            "id": "1", "_ts": 1, "a": 1, "b": { "c": 2, "d": [1, 2, { "e": 3 }] }, "tags": ["x", "y", "z"],
        });
        IndexedPaths::of(policy).count(document.as_object().unwrap())
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
