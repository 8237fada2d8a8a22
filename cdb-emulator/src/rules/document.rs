//! The rules of documents.

use serde_json::{Map, Value};

use crate::protocol::ServiceError;
use crate::store::partitions::epk::normalized;

/// Maximum size of a request (concepts-limits, "Per-request limits").
const MAX_REQUEST_BYTES: usize = 2 * 1024 * 1024;
/// Maximum size of a document (azure-cosmos-dotnet-v3 `Constants.cs`, `MaxResourceSizeInBytes`).
/// Microsoft does not say whether the properties of the service count. The emulator counts them, so a
/// program that fits here fits the service.
const MAX_DOCUMENT_BYTES: usize = 2 * 1024 * 1024 - 1;
/// Maximum length of an id in bytes.
const MAX_ID_BYTES: usize = 1023;
/// Maximum length of a string in a partition key, in bytes.
const MAX_KEY_BYTES: usize = 2048;

/// Checks a document's id and returns it.
pub(crate) fn id(document: &Map<String, Value>) -> Result<&str, ServiceError> {
    let Some(Value::String(id)) = document.get("id") else {
        return Err(ServiceError::bad_request(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        ));
    };
    if id.is_empty() || id.len() > MAX_ID_BYTES {
        return Err(ServiceError::bad_request(format!(
            "The id has {} bytes, 1 to {MAX_ID_BYTES} are allowed.",
            id.len()
        )));
    }
    // The service stores ids with a slash but cannot address them, so the emulator rejects them.
    if let Some(c) = id.chars().find(|c| matches!(c, '/' | '\\' | '?' | '#')) {
        return Err(ServiceError::bad_request(format!(
            "The id contains '{c}', which is not allowed."
        )));
    }
    if id.ends_with(' ') {
        return Err(ServiceError::bad_request(
            "The id ends with a space, which gateways reject.",
        ));
    }
    Ok(id)
}

/// Longest time to live, in seconds (time-to-live, "ttl on an item": up to the maximum of `Int32`;
/// azure-cosmos-dotnet-v3#620).
const MAX_TTL: i64 = i32::MAX as i64;

/// Checks a document's time to live.
pub(crate) fn ttl(document: &Map<String, Value>) -> Result<Option<i64>, ServiceError> {
    match document.get("ttl") {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(seconds) if seconds == -1 || (1..=MAX_TTL).contains(&seconds) => Ok(Some(seconds)),
            _ => Err(ServiceError::bad_request(
                "The input ttl is invalid. Ensure to provide a positive integer or -1.",
            )),
        },
    }
}

/// Checks a request's size.
pub(crate) fn request_size(bytes: usize) -> Result<(), ServiceError> {
    if bytes > MAX_REQUEST_BYTES {
        return Err(ServiceError::too_large(format!(
            "Request size is too large: {bytes} bytes, {MAX_REQUEST_BYTES} are allowed."
        )));
    }
    Ok(())
}

/// Checks the size of a document with the properties of the service.
pub(crate) fn document_size(bytes: usize) -> Result<(), ServiceError> {
    if bytes > MAX_DOCUMENT_BYTES {
        return Err(ServiceError::too_large(format!(
            "Request size is too large: the document has {bytes} bytes with its system properties, {MAX_DOCUMENT_BYTES} are allowed."
        )));
    }
    Ok(())
}

/// Returns the components of the partition key of a document; `None` for a missing path.
pub(crate) fn partition_key(document: &Map<String, Value>, paths: &[String]) -> Vec<Option<Value>> {
    paths
        .iter()
        .map(|path| {
            let mut value: Option<&Value> = None;
            for (level, name) in names(path).into_iter().flatten().enumerate() {
                value = match (level, value) {
                    (0, _) => document.get(name),
                    (_, Some(Value::Object(object))) => object.get(name),
                    _ => None,
                };
            }
            value.map(normalized)
        })
        .collect()
}

/// Returns the names of a path of a partition key; `None` for an invalid path. A name consists of
/// letters, digits and `_` (partitioning-overview), or is quoted (azure-documentdb-java `GatewayTests`,
/// `testDocumentKeyExtractionWithEscapeCharacters1`).
pub(super) fn names(path: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut rest = path;
    while let Some(name) = rest.strip_prefix('/') {
        let quoted = name.strip_prefix(['"', '\'']);
        let (name, after) = match quoted {
            Some(quoted) => quoted.split_once(&name[..1])?,
            None => name.split_at(name.find('/').unwrap_or(name.len())),
        };
        let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if name.is_empty() || !(plain || quoted.is_some()) {
            return None;
        }
        names.push(name);
        rest = after;
    }
    (rest.is_empty() && !names.is_empty()).then_some(names)
}

/// Returns a partition key as text. Equal texts are the same partition key.
pub(crate) fn key_text(key: &[Option<Value>]) -> String {
    let values = key.iter().map(|value| match value {
        Some(value) => value.clone(),
        None => Value::Object(Map::new()),
    });
    Value::Array(values.collect()).to_string()
}

fn is_long(value: &Value) -> bool {
    let text = value.as_str();
    text.is_some_and(|text| text.len() > MAX_KEY_BYTES)
}

/// Returns whether the partition key of a header contains a string that is too long.
pub(crate) fn is_key_too_long(text: &str) -> bool {
    let values: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    values.iter().any(is_long)
}

/// Reads the header `x-ms-documentdb-partitionkey`; an empty object stands for undefined.
pub(crate) fn partition_key_header(text: &str) -> Result<Vec<Option<Value>>, ServiceError> {
    let values: Vec<Value> = serde_json::from_str(text).map_err(|_| {
        ServiceError::bad_request(format!(
            "Partition key {text} is invalid: it must be a JSON array."
        ))
    })?;
    if values.iter().any(is_long) {
        return Err(ServiceError::bad_request(format!(
            "The partition key is too long: at most {MAX_KEY_BYTES} bytes of text are allowed."
        )));
    }
    if values
        .iter()
        .any(|value| value.is_array() || value.as_object().is_some_and(|object| !object.is_empty()))
    {
        return Err(ServiceError::bad_request(format!(
            "Partition key {text} is invalid: its values have to be strings, numbers, booleans, null or {{}}."
        )));
    }
    Ok(values
        .into_iter()
        .map(|value| {
            if value.is_object() {
                None
            } else {
                Some(normalized(&value))
            }
        })
        .collect())
}
