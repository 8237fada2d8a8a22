//! Partial updates of documents.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::protocol::ServiceError;
use crate::sql::eval::Scope;
use crate::sql::{self, Context, value};

/// Maximum number of changes in a patch.
const MAX_OPERATIONS: usize = 10;

/// A patch in its JSON form.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::op) struct Patch {
    operations: Vec<Change>,
    #[serde(default)]
    condition: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Change {
    Add { path: String, value: Value },
    Set { path: String, value: Value },
    Replace { path: String, value: Value },
    Remove { path: String },
    Incr { path: String, value: f64 },
    Move { from: String, path: String },
}

impl Patch {
    /// Reads a patch: an object, or the operations alone.
    pub(in crate::op) fn read(body: Value) -> Result<Self, ServiceError> {
        let patch = if body.is_array() {
            json!({ "operations": body })
        } else {
            body
        };
        serde_json::from_value(patch).map_err(ServiceError::invalid_payload)
    }

    /// Checks what is independent of the document.
    pub(in crate::op) fn check(&self) -> Result<(), ServiceError> {
        if self.operations.is_empty() || self.operations.len() > MAX_OPERATIONS {
            return Err(ServiceError::bad_request(format!(
                "A patch takes 1 to {MAX_OPERATIONS} operations, this one has {}.",
                self.operations.len()
            )));
        }
        Ok(())
    }

    /// Applies the patch to a document, `now` seconds after the epoch. Fails when the condition is not met or a change is invalid.
    pub(in crate::op) fn apply(
        &self,
        document: &mut Map<String, Value>,
        now: i64,
    ) -> Result<(), ServiceError> {
        if let Some(condition) = &self.condition {
            check_condition(condition, document, now)?;
        }
        let mut root = Value::Object(std::mem::take(document));
        for change in &self.operations {
            apply(&mut root, change)?;
        }
        if let Value::Object(changed) = root {
            *document = changed;
        }
        Ok(())
    }
}

/// Checks a condition of the form `from c where …`.
fn check_condition(
    condition: &str,
    document: &Map<String, Value>,
    now: i64,
) -> Result<(), ServiceError> {
    let select = sql::parse(&format!("SELECT * {condition}"))?;
    let now = UNIX_EPOCH + Duration::from_secs(now.unsigned_abs());
    let context = Context::new(HashMap::new(), now);
    let scope = Scope::new(&select.alias, Value::Object(document.clone()), &context);
    if scope.holds(select.filter.as_ref())? {
        return Ok(());
    }
    Err(ServiceError::new(
        412,
        1110,
        "PreconditionFailed",
        "The condition of the patch is not met.",
    ))
}

fn apply(root: &mut Value, change: &Change) -> Result<(), ServiceError> {
    match change {
        Change::Add { path, value } => put(root, path, value.clone(), true),
        Change::Set { path, value } => put(root, path, value.clone(), false),
        Change::Replace { path, value } => {
            *find(root, path)?.ok_or_else(|| missing(path))? = value.clone();
            Ok(())
        }
        Change::Remove { path } => take(root, path).map(|_| ()),
        Change::Incr { path, value: by } => match find(root, path)? {
            Some(found) => {
                let number = found.as_f64().ok_or_else(|| {
                    ServiceError::bad_request(format!(
                        "'{path}' is not a number and cannot be incremented."
                    ))
                })?;
                *found = value::number(number + by);
                Ok(())
            }
            None => put(root, path, value::number(*by), false),
        },
        Change::Move { from, path } => {
            if path.starts_with(&format!("{from}/")) {
                return Err(ServiceError::bad_request(
                    "A value cannot be moved into itself.",
                ));
            }
            let value = take(root, from)?;
            put(root, path, value, false)
        }
    }
}

fn missing(path: &str) -> ServiceError {
    ServiceError::bad_request(format!("For Patch, the path '{path}' does not exist."))
}

/// Splits a JSON pointer into the segments of the parent and the last segment. Fails for system
/// properties.
fn split(path: &str) -> Result<(Vec<String>, String), ServiceError> {
    let invalid = || ServiceError::bad_request(format!("'{path}' is not a valid path of a patch."));
    let mut segments: Vec<String> = path
        .strip_prefix('/')
        .ok_or_else(invalid)?
        .split('/')
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    if matches!(&*segments[0], "_ts" | "_etag" | "_rid" | "_self" | "id") {
        return Err(ServiceError::bad_request(format!(
            "'{path}' cannot be patched."
        )));
    }
    let last = segments.pop().ok_or_else(invalid)?;
    Ok((segments, last))
}

/// Returns an array index: digits without leading zeros (RFC 6901, section 4).
fn position(segment: &str) -> Option<usize> {
    let digits = segment.bytes().all(|byte| byte.is_ascii_digit());
    let padded = segment.len() > 1 && segment.starts_with('0');
    if digits && !padded {
        segment.parse().ok()
    } else {
        None
    }
}

fn parent<'a>(root: &'a mut Value, segments: &[String]) -> Option<&'a mut Value> {
    let mut at = root;
    for segment in segments {
        let next = match at {
            Value::Object(object) => object.get_mut(segment),
            Value::Array(items) => position(segment).and_then(|at| items.get_mut(at)),
            _ => None,
        };
        at = next?;
    }
    Some(at)
}

fn find<'a>(root: &'a mut Value, path: &str) -> Result<Option<&'a mut Value>, ServiceError> {
    let (mut segments, last) = split(path)?;
    segments.push(last);
    Ok(parent(root, &segments))
}

fn put(root: &mut Value, path: &str, value: Value, insert: bool) -> Result<(), ServiceError> {
    let (segments, last) = split(path)?;
    match parent(root, &segments).ok_or_else(|| missing(path))? {
        Value::Object(object) => {
            object.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = position(&last).ok_or_else(|| missing(path))?;
            if insert && at <= items.len() {
                items.insert(at, value);
            } else {
                *items.get_mut(at).ok_or_else(|| missing(path))? = value;
            }
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn take(root: &mut Value, path: &str) -> Result<Value, ServiceError> {
    let (segments, last) = split(path)?;
    let taken = match parent(root, &segments) {
        Some(Value::Object(object)) => object.shift_remove(&last),
        Some(Value::Array(items)) => position(&last)
            .filter(|at| *at < items.len())
            .map(|at| items.remove(at)),
        _ => None,
    };
    taken.ok_or_else(|| missing(path))
}
