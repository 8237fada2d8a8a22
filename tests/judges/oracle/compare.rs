//! The compared and the ignored parts of an answer, as data.
//!
//! Every aspect is read from both answers in one form; two forms that are not equal are a finding,
//! and a finding that no entry of [`crate::differences`] allows fails the test.

use serde_json::{Value, json};

use crate::exchange::Answer;
use crate::operation::Operation;

/// Compares an ETag with the document's previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EtagIs {
    Missing,
    AsBefore,
    New,
}

/// The result of an operation on one emulator.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The answer; of several pages, the last one.
    pub(crate) answer: Answer,
    pub(crate) etag: EtagIs,
    /// The rows of all pages of a query or feed.
    pub(crate) rows: Vec<Value>,
}

impl Seen {
    pub(crate) fn succeeded(&self) -> bool {
        self.answer.status < 300
    }
}

/// An aspect that is compared.
struct Aspect {
    name: &'static str,
    read: fn(&Operation, &Seen) -> Value,
}

/// All aspects. The comments define equality.
const COMPARED: [Aspect; 6] = [
    // The same number.
    Aspect {
        name: "status",
        read: |_, seen| seen.answer.status.into(),
    },
    // The same number, 0 for none.
    Aspect {
        name: "sub-status",
        read: |_, seen| seen.answer.substatus.into(),
    },
    // Of a point operation that succeeded: the same JSON, numbers spelled alike, or no body on
    // both sides.
    Aspect {
        name: "document",
        read: document,
    },
    // Missing, as before or new; equal to the body's `_etag` where there is a body.
    Aspect {
        name: "etag",
        read: etag,
    },
    // Status and document of every step, in order; an ETag where the other has one.
    Aspect {
        name: "batch results",
        read: results,
    },
    // The same rows; in the same order as far as ORDER BY decides it; cut by TOP or LIMIT, the
    // same sort keys.
    Aspect {
        name: "rows",
        read: rows,
    },
];

/// Properties and headers that are not compared, and why.
const IGNORED: [(&str, &str); 12] = [
    (
        "the sign of zero",
        "JSON that the service stored has none; the sign of computed zeros is not documented",
    ),
    ("_ts", "each has its own clock"),
    (
        "_etag",
        "opaque; its relation to the one before is compared instead",
    ),
    ("_rid", "opaque, made by each store"),
    ("_self", "made of resource ids"),
    ("_attachments", "a constant of a feature that is gone"),
    (
        "x-ms-request-charge",
        "two models; cdb-emulator/docs/charges.md has ours; theirs counts bytes and properties",
    ),
    (
        "x-ms-session-token",
        "opaque; both hand one out and accept their own",
    ),
    ("x-ms-activity-id", "a random number"),
    (
        "message",
        "the text of an error is not promised; its status and sub-status are",
    ),
    (
        "eTag of a deletion in a batch",
        "a point deletion has none; for a batch it is not documented",
    ),
    (
        "page ends",
        "where a page ends is the store's choice; all pages are read and put together",
    ),
];

/// The aspects in which two answers differ.
pub(crate) fn compare(
    operation: &Operation,
    ours: &Seen,
    theirs: &Seen,
) -> Vec<(&'static str, Value, Value)> {
    COMPARED
        .iter()
        .map(|aspect| {
            let ours = (aspect.read)(operation, ours);
            (aspect.name, ours, (aspect.read)(operation, theirs))
        })
        .filter(|(_, ours, theirs)| ours != theirs)
        .collect()
}

/// Removes the ignored properties from a document.
pub(crate) fn without_ignored(document: &Value) -> Value {
    let mut document = document.clone();
    if let Value::Object(properties) = &mut document {
        properties.retain(|name, _| !IGNORED.iter().any(|(ignored, _)| ignored == name));
    }
    drop_sign_of_zero(&mut document);
    document
}

fn drop_sign_of_zero(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = 0.into(),
        Value::Array(items) => items.iter_mut().for_each(drop_sign_of_zero),
        Value::Object(properties) => properties.values_mut().for_each(drop_sign_of_zero),
        _ => {}
    }
}

fn document(operation: &Operation, seen: &Seen) -> Value {
    let is_point = matches!(
        operation,
        Operation::Write(..) | Operation::Read(..) | Operation::Delete(..) | Operation::Patch(..)
    );
    if is_point && seen.succeeded() {
        without_ignored(&seen.answer.body)
    } else {
        Value::Null
    }
}

fn etag(operation: &Operation, seen: &Seen) -> Value {
    if matches!(operation, Operation::Query(_) | Operation::Feed(..)) {
        return Value::Null;
    }
    let in_body = seen.answer.body.get("_etag").and_then(Value::as_str);
    let agrees = in_body.is_none() || in_body == seen.answer.etag.as_deref();
    json!({ "is": format!("{:?}", seen.etag), "agrees with the body": agrees })
}

fn results(operation: &Operation, seen: &Seen) -> Value {
    let (Operation::Batch(..), Value::Array(results)) = (operation, &seen.answer.body) else {
        return Value::Null;
    };
    let result = |result: &Value| {
        let body = &result["resourceBody"];
        let agrees = body.is_null() || body["_etag"] == result["eTag"];
        let has_etag = result["statusCode"] != 204 && result["eTag"].is_string();
        json!([
            result["statusCode"],
            without_ignored(body),
            has_etag,
            agrees
        ])
    };
    results.iter().map(result).collect()
}

fn rows(operation: &Operation, seen: &Seen) -> Value {
    let rows: Vec<Value> = seen.rows.iter().map(without_ignored).collect();
    match operation {
        Operation::Query(query) => {
            let keys: Option<Vec<Value>> = query
                .sorted_by
                .map(|name| rows.iter().map(|row| key(row, name)).collect());
            let rows = (!query.cut).then(|| as_set(rows));
            json!({ "keys": keys, "rows": rows, "count": seen.rows.len() })
        }
        Operation::Feed(..) => as_set(rows),
        _ => Value::Null,
    }
}

/// A sort key. A missing property is not null, and of arrays and objects only the type has a place
/// in the order.
fn key(row: &Value, name: &str) -> Value {
    match row.get(name) {
        None => json!(["undefined"]),
        Some(Value::Array(_)) => json!(["array"]),
        Some(Value::Object(_)) => json!(["object"]),
        Some(value) => value.clone(),
    }
}

/// Sorts rows whose order is not guaranteed.
pub(crate) fn as_set(rows: Vec<Value>) -> Value {
    let mut rows = rows;
    rows.sort_by_cached_key(|row| {
        // The order of properties is not compared.
        let mut row = row.clone();
        row.sort_all_objects();
        row.to_string()
    });
    Value::Array(rows)
}
