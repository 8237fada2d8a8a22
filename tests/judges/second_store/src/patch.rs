//! Patches, applied to a document as "Partial document update in Azure Cosmos DB" describes them.

use serde_json::{Value, json};

/// Applies the operations of a patch in order. Returns why an operation is invalid.
pub(crate) fn apply(document: &mut Value, operations: &Value) -> Result<(), String> {
    let operations = operations.as_array().filter(|them| !them.is_empty());
    for operation in operations.ok_or("a patch needs operations")? {
        let path = operation["path"].as_str().unwrap_or_default();
        let value = || operation["value"].clone();
        match operation["op"].as_str().unwrap_or_default() {
            "set" => put(document, path, value(), false)?,
            "add" => put(document, path, value(), true)?,
            "replace" => *document.pointer_mut(path).ok_or_else(|| missing(path))? = value(),
            "remove" => {
                take(document, path)?;
            }
            "incr" => {
                let sum = sum(document.pointer(path), &operation["value"])?;
                put(document, path, sum, false)?;
            }
            "move" => {
                let moved = take(document, operation["from"].as_str().unwrap_or_default())?;
                put(document, path, moved, false)?;
            }
            other => return Err(format!("`{other}` is not an operation of a patch")),
        }
    }
    Ok(())
}

fn missing(path: &str) -> String {
    format!("'{path}' is missing")
}

/// Adds to a number; `incr` creates what is missing. Integers stay integers.
fn sum(number: Option<&Value>, by: &Value) -> Result<Value, String> {
    let Some(number) = number else {
        return Ok(by.clone());
    };
    if let (Some(number), Some(by)) = (number.as_i64(), by.as_i64()) {
        return Ok(json!(number.saturating_add(by)));
    }
    let sum = number.as_f64().zip(by.as_f64());
    let (number, by) = sum.ok_or("incr takes numbers")?;
    Ok(json!(number + by))
}

/// Returns the object or array that contains the last segment of a path, and that segment.
fn parent<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (before, last) = path.rsplit_once('/').ok_or_else(|| missing(path))?;
    let parent = document.pointer_mut(before).ok_or_else(|| missing(path))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn put(document: &mut Value, path: &str, value: Value, inserts: bool) -> Result<(), String> {
    let (parent, last) = parent(document, path)?;
    match parent {
        Value::Object(object) => {
            object.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at: usize = last.parse().map_err(|_| missing(path))?;
            if inserts && at <= items.len() {
                items.insert(at, value);
            } else {
                *items.get_mut(at).ok_or_else(|| missing(path))? = value;
            }
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn take(document: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, last) = parent(document, path)?;
    let taken = match parent {
        Value::Object(object) => object.remove(&last),
        Value::Array(items) => {
            let at = last.parse().ok().filter(|at| *at < items.len());
            at.map(|at: usize| items.remove(at))
        }
        _ => None,
    };
    taken.ok_or_else(|| missing(path))
}
