//! Bulks: independent operations with partition keys of their own. Theirs executes every list of
//! operations as a transactional batch, so each operation becomes a batch of its own.

use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::exchange::{Answer, Request};

const KEY: HeaderName = HeaderName::from_static("x-ms-documentdb-partitionkey");

/// Returns a batch per operation; `None` if the request is not a bulk.
pub(crate) fn batches(request: &Request) -> Option<Vec<Request>> {
    let is_bulk = request.is_true("x-ms-cosmos-is-batch-request")
        && !request.is_true("x-ms-cosmos-batch-atomic");
    let operations: Vec<Value> = serde_json::from_slice(&request.body).ok()?;
    let batch = |mut operation: Value| {
        let mut batch = request.clone();
        let key = operation["partitionKey"].as_str()?.to_owned();
        batch.headers.insert(KEY, HeaderValue::from_str(&key).ok()?);
        batch.headers.remove("x-ms-documentdb-partitionkeyrangeid");
        operation.as_object_mut()?.remove("partitionKey");
        batch.body = json!([operation]).to_string().into_bytes();
        Some(batch)
    };
    is_bulk.then(|| operations.into_iter().filter_map(batch).collect())
}

/// Makes one answer of the answers of the batches. A batch that was refused as a whole, because of
/// its operation, has no list of results.
pub(crate) fn joined(answers: &[Answer]) -> Option<Answer> {
    let result = |answer: &Answer| match answer.json() {
        Value::Array(mut results) if results.len() == 1 => results.remove(0),
        refusal => json!({
            "statusCode": answer.status.as_u16(), "requestCharge": 1.0, "message": refusal["message"],
        }),
    };
    let mut joined = answers.last()?.clone();
    let results: Vec<Value> = answers.iter().map(result).collect();
    let has_failure = results
        .iter()
        .any(|it| it["statusCode"].as_u64() >= Some(400));
    let status = if has_failure { 207 } else { 200 };
    joined.status = http::StatusCode::from_u16(status).unwrap_or_default();
    joined.body = Value::Array(results).to_string().into_bytes();
    Some(joined)
}
