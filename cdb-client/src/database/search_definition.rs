//! Adds computed properties, vectors, full-text paths and indexes for searches to a definition as the
//! service wrote it.

use cdb_model::policy::{
    ComputedProperty, FullTextPath, FullTextPolicy, IndexingPolicy, VectorEmbedding,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// What happens to an entry that is there and differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Kept,
    Replaced,
}

/// Adds computed properties, by name. Returns whether the definition changed.
pub(super) fn add_computed(
    live: &mut Map<String, Value>,
    properties: &[ComputedProperty],
    existing: Existing,
) -> Result<bool> {
    if properties.is_empty() {
        return Ok(false);
    }
    let there = list(live, "computedProperties")?;
    put(there, "name", properties, existing)
}

/// Adds full-text paths. Returns whether the definition changed.
pub(super) fn add_full_texts(
    live: &mut Map<String, Value>,
    paths: &[FullTextPath],
    existing: Existing,
) -> Result<bool> {
    if paths.is_empty() {
        return Ok(false);
    }
    let empty = serde_json::to_value(FullTextPolicy::default()).map_err(Error::encode)?;
    let policy = live.entry("fullTextPolicy").or_insert(empty);
    let Some(policy) = policy.as_object_mut() else {
        return Err(Error::protocol("`fullTextPolicy` is not an object"));
    };
    put(list(policy, "fullTextPaths")?, "path", paths, existing)
}

/// Adds vectors, by path; the service refuses to change one ("Vector indexing policies",
/// vector-search). Returns whether the definition changed.
pub(super) fn add_vectors(
    live: &mut Map<String, Value>,
    vectors: &[VectorEmbedding],
) -> Result<bool> {
    if vectors.is_empty() {
        return Ok(false);
    }
    let policy = live.entry("vectorEmbeddingPolicy");
    let Some(policy) = policy.or_insert_with(|| Map::new().into()).as_object_mut() else {
        return Err(Error::protocol("`vectorEmbeddingPolicy` is not an object"));
    };
    let there = list(policy, "vectorEmbeddings")?;
    put(there, "path", vectors, Existing::Kept)
}

/// Adds the vector and full-text indexes of a policy, by path. Those that are there stay as the
/// service wrote them.
pub(super) fn add_search_indexes(
    live: &mut Map<String, Value>,
    policy: &IndexingPolicy,
) -> Result<()> {
    if !policy.vector_indexes.is_empty() {
        let there = list(live, "vectorIndexes")?;
        put(there, "path", &policy.vector_indexes, Existing::Kept)?;
    }
    if !policy.full_text_indexes.is_empty() {
        let there = list(live, "fullTextIndexes")?;
        put(there, "path", &policy.full_text_indexes, Existing::Kept)?;
    }
    Ok(())
}

/// Adds values to a list of objects. `key` is the member that tells them apart. Returns whether the
/// list changed.
fn put<T: Serialize>(
    list: &mut Vec<Value>,
    key: &str,
    values: &[T],
    existing: Existing,
) -> Result<bool> {
    let mut changed = false;
    for value in values {
        let value = serde_json::to_value(value).map_err(Error::encode)?;
        match list.iter_mut().find(|old| old[key] == value[key]) {
            None => list.push(value),
            Some(old) if existing == Existing::Replaced && *old != value => *old = value,
            Some(_) => continue,
        }
        changed = true;
    }
    Ok(changed)
}

/// Returns a list of a definition; creates it if it is missing.
pub(super) fn list<'a>(of: &'a mut Map<String, Value>, name: &str) -> Result<&'a mut Vec<Value>> {
    of.entry(name)
        .or_insert_with(|| Value::Array(Vec::new()))
        .as_array_mut()
        .ok_or_else(|| Error::protocol(format!("`{name}` of a container is not a list")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn computed(name: &str, query: &str) -> ComputedProperty {
        ComputedProperty {
            name: name.to_owned(),
            query: query.to_owned(),
        }
    }

    #[test]
    fn entries_of_other_programs_stay_and_own_ones_are_replaced_on_demand() {
        let theirs = json!({ "name": "theirs", "query": "q" });
        let mut live = json!({ "computedProperties": [theirs, { "name": "own", "query": "old" }] });
        let live = live.as_object_mut().unwrap();
        let own = [computed("own", "new"), computed("second", "q")];
        assert!(add_computed(live, &own, Existing::Kept).unwrap());
        assert!(!add_computed(live, &own, Existing::Kept).unwrap());
        assert_eq!(live["computedProperties"][1]["query"], "old");
        assert!(add_computed(live, &own, Existing::Replaced).unwrap());
        assert_eq!(
            live["computedProperties"],
            json!([theirs, { "name": "own", "query": "new" }, { "name": "second", "query": "q" }])
        );
    }

    #[test]
    fn a_container_without_full_texts_gets_the_policy() {
        let mut live = Map::new();
        let path = FullTextPath {
            path: "/body".to_owned(),
            language: Some("de-DE".to_owned()),
        };
        assert!(add_full_texts(&mut live, &[path], Existing::Kept).unwrap());
        assert_eq!(
            live["fullTextPolicy"],
            json!({ "defaultLanguage": "en-US", "fullTextPaths": [{ "path": "/body", "language": "de-DE" }] })
        );
        assert!(!add_full_texts(&mut live, &[], Existing::Kept).unwrap());
    }
}
