//! The rules and defaults of container definitions.

use serde_json::{Value, json};

use super::document::names;
use super::name::name;
use super::policy;
use crate::plan;
use crate::protocol::ServiceError;
use crate::store::partitions::epk::Version;

/// Maximum number of levels of a hierarchical partition key.
const MOST_LEVELS: usize = 3;
/// Maximum number of unique keys, and of the paths of a unique key (concepts-limits).
const MOST_UNIQUE_KEYS: usize = 10;
const MOST_UNIQUE_PATHS: usize = 16;

/// Most dimensions of a vector with an index, and with a `flat` one (vector-search, "Vector indexing
/// policies").
const MOST_DIMENSIONS: u64 = 4096;
const MOST_FLAT_DIMENSIONS: u64 = 505;

/// Checks the definition of a container and adds defaults. `former` is the definition that it
/// replaces, whose immutable properties it must have.
pub(crate) fn definition(
    mut definition: Value,
    former: Option<&Value>,
) -> Result<Value, ServiceError> {
    name(&definition)?;
    let index = [
        "globalSecondaryIndexDefinition",
        "materializedViewDefinition",
    ];
    if former.is_none() && index.iter().any(|name| !definition[*name].is_null()) {
        return Err(ServiceError::bad_request(
            "This emulator has no global secondary indexes; use an account that has the feature.",
        ));
    }
    partition_key(&definition["partitionKey"])?;
    unique_keys(&definition["uniqueKeyPolicy"])?;
    let has_time_to_live = time_to_live(&definition)?;
    let indexing = &definition["indexingPolicy"];
    let lists = ["includedPaths", "excludedPaths"];
    let says_paths = lists.iter().any(|list| !indexing[*list].is_null());
    let indexes = !indexing["indexingMode"]
        .as_str()
        .is_some_and(|mode| mode.eq_ignore_ascii_case("none"));
    if indexing.is_null() {
        definition["indexingPolicy"] = default_policy();
    } else if !indexing.is_object() {
        return Err(ServiceError::bad_request(
            "The indexingPolicy has to be an object.",
        ));
    } else if !says_paths && indexes {
        for list in lists {
            definition["indexingPolicy"][list] = default_policy()[list].clone();
        }
    }
    // The service sets it, also for a client that sends `false` (Rust SDK,
    // emulator_tests/cosmos_containers.rs).
    if indexes {
        definition["indexingPolicy"]["automatic"] = true.into();
    }
    policy::check(&definition["indexingPolicy"], has_time_to_live)?;
    plan::check_computed(&definition)?;
    vectors(&definition, former)?;
    if let Some(former) = former {
        let version = &former["partitionKey"]["version"];
        if definition["partitionKey"]["version"].is_null() && !version.is_null() {
            definition["partitionKey"]["version"] = version.clone();
        }
        unchanged(&definition, former)?;
    }
    Ok(definition)
}

fn partition_key(key: &Value) -> Result<(), ServiceError> {
    let refuse = |why: &str| {
        Err(ServiceError::bad_request(format!(
            "The partition key definition is invalid: {why}."
        )))
    };
    let Some(paths) = key["paths"].as_array() else {
        return refuse("a container needs a partitionKey with paths");
    };
    match (&key["version"], key["kind"].as_str()) {
        (Value::Null, _) => {}
        (version, kind) if *version == 2 || (*version == 1 && kind != Some("MultiHash")) => {}
        (_, Some("MultiHash")) => return refuse("a 'MultiHash' key has version 2"),
        _ => return refuse("its version is neither 1 nor 2"),
    }
    let most = match key["kind"].as_str() {
        None | Some("Hash") => 1,
        Some("MultiHash") => MOST_LEVELS,
        Some(_) => return refuse("its kind is neither 'Hash' nor 'MultiHash'"),
    };
    if paths.is_empty() || paths.len() > most {
        return refuse(&format!(
            "it has {} paths, 1 to {most} are allowed",
            paths.len()
        ));
    }
    let good = |path: &Value| path.as_str().is_some_and(|path| names(path).is_some());
    if !paths.iter().all(good) {
        return refuse(
            "a path has the form '/name' or '/name/name', with letters, digits and '_', or quoted names",
        );
    }
    Ok(())
}

fn unique_keys(policy: &Value) -> Result<(), ServiceError> {
    let keys = policy["uniqueKeys"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let fits = |key: &Value| {
        let paths = key["paths"].as_array().map_or(&[][..], Vec::as_slice);
        let good = |path: &Value| path.as_str().is_some_and(|path| path.starts_with('/'));
        (1..=MOST_UNIQUE_PATHS).contains(&paths.len()) && paths.iter().all(good)
    };
    if keys.len() > MOST_UNIQUE_KEYS || !keys.iter().all(fits) {
        return Err(ServiceError::bad_request(format!(
            "The unique key policy is invalid: at most {MOST_UNIQUE_KEYS} keys of 1 to {MOST_UNIQUE_PATHS} paths are \
             allowed, and a path begins with '/'."
        )));
    }
    Ok(())
}

/// Checks that every vector index has a vector, and that a replacement changes no vector and no vector
/// index. It may add and remove them. Source: vector-search ("You can add new path configurations or
/// remove existing ones"), azure-sdk-for-python `test_vector_policy.py`.
fn vectors(definition: &Value, former: Option<&Value>) -> Result<(), ServiceError> {
    let [embeddings, indexes] = [
        "/vectorEmbeddingPolicy/vectorEmbeddings",
        "/indexingPolicy/vectorIndexes",
    ];
    let list = |of: &Value, pointer: &str| {
        let list = of.pointer(pointer).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let vectors = list(definition, embeddings);
    for index in list(definition, indexes) {
        let most = if index["type"] == "flat" {
            MOST_FLAT_DIMENSIONS
        } else {
            MOST_DIMENSIONS
        };
        let mut of_index = vectors
            .iter()
            .filter(|vector| vector["path"] == index["path"]);
        if of_index.any(|vector| vector["dimensions"].as_u64() > Some(most)) {
            return Err(ServiceError::bad_request(format!(
                "The vector at {} has too many dimensions for its index, {most} are allowed.",
                index["path"].as_str().unwrap_or_default()
            )));
        }
    }
    let is_missing = |index: &&Value| !vectors.iter().any(|vector| vector["path"] == index["path"]);
    if let Some(index) = list(definition, indexes).iter().find(is_missing) {
        return Err(ServiceError::bad_request(format!(
            "The Vector Indexing Policy's path::{} not matching in Embedding's path.",
            index["path"].as_str().unwrap_or_default()
        )));
    }
    for (pointer, what) in [(embeddings, "embedding"), (indexes, "vector indexing")] {
        let now = list(definition, pointer);
        let before = former
            .map(|former| list(former, pointer))
            .unwrap_or_default();
        let is_changed = |new: &Value| {
            let mut old = before.iter();
            old.any(|old| old["path"] == new["path"] && !is_part_of(new, old))
        };
        if now.iter().any(is_changed) {
            return Err(ServiceError::bad_request(format!(
                "Paths in existing {what} policy cannot be modified in Collection Replace. They can only be added or \
                 removed."
            )));
        }
    }
    Ok(())
}

/// Returns whether all members of an object are in another one. The service adds defaults to what a
/// client sent.
fn is_part_of(new: &Value, old: &Value) -> bool {
    let mut members = new.as_object().into_iter().flatten();
    members.all(|(name, value)| old[name] == *value)
}

/// Checks `defaultTtl`, and returns whether documents can expire.
fn time_to_live(definition: &Value) -> Result<bool, ServiceError> {
    let ttl = &definition["defaultTtl"];
    if ttl.is_null() {
        return Ok(false);
    }
    match ttl.as_i64() {
        Some(seconds) if seconds == -1 || (1..=i64::from(i32::MAX)).contains(&seconds) => Ok(true),
        _ => Err(ServiceError::bad_request(
            "The value of defaultTtl is invalid. It has to be -1 or a positive number of seconds up to 2147483647.",
        )),
    }
}

fn unchanged(definition: &Value, former: &Value) -> Result<(), ServiceError> {
    let keys = |of: &Value| {
        let keys = of["uniqueKeyPolicy"]["uniqueKeys"].as_array();
        keys.cloned().unwrap_or_default()
    };
    let what = if definition["id"] != former["id"] {
        "id"
    } else if definition["partitionKey"]["paths"] != former["partitionKey"]["paths"]
        || Version::of(&definition["partitionKey"]) != Version::of(&former["partitionKey"])
    {
        "partition key"
    } else if keys(definition) != keys(former) {
        // Also if they are omitted (azure-sdk-for-python#40070).
        return Err(ServiceError::new(
            403,
            0,
            "Forbidden",
            "The unique index cannot be modified. To change the unique index, remove the collection and re-create a \
             new one.",
        ));
    } else {
        return Ok(());
    };
    Err(ServiceError::bad_request(format!(
        "The {what} of a container cannot be changed."
    )))
}

fn default_policy() -> Value {
    json!({
        "indexingMode": "consistent", "automatic": true, "includedPaths": [{ "path": "/*" }],
        "excludedPaths": [{ "path": "/\"_etag\"/?" }],
    })
}
