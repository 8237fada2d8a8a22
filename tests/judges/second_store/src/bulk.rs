//! Bulks: independent operations with partition keys of their own. Theirs executes every list of
//! operations as a transactional batch, so each operation becomes a request of its own.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::exchange::{Answer, Request};

/// Returns a request per operation; `None` if the request is not a bulk.
pub(crate) fn requests(bulk: &Request) -> Option<Vec<Request>> {
    let is_bulk =
        bulk.is_true("x-ms-cosmos-is-batch-request") && !bulk.is_true("x-ms-cosmos-batch-atomic");
    let operations: Vec<Value> = serde_json::from_slice(&bulk.body).ok()?;
    is_bulk.then(|| {
        operations
            .iter()
            .filter_map(|it| request(bulk, it))
            .collect()
    })
}

fn request(bulk: &Request, operation: &Value) -> Option<Request> {
    let kept = [
        "authorization",
        "prefer",
        "x-ms-session-token",
        "x-ms-version",
    ];
    let kept = kept.map(HeaderName::from_static);
    let kept = kept.into_iter().filter_map(|name| {
        let value = bulk.headers.get(&name)?.clone();
        Some((name, value))
    });
    let mut headers: HeaderMap = kept.collect();
    let mut set = |name, value: &Value| -> Option<()> {
        let value = HeaderValue::from_str(value.as_str()?).ok()?;
        headers.insert(HeaderName::from_static(name), value);
        Some(())
    };
    set("x-ms-documentdb-partitionkey", &operation["partitionKey"])?;
    set("if-match", &operation["ifMatch"]);
    set("if-none-match", &operation["ifNoneMatch"]);
    let (method, is_named) = match operation["operationType"].as_str()? {
        "Create" | "Upsert" => (Method::POST, false),
        "Replace" => (Method::PUT, true),
        "Patch" => (Method::PATCH, true),
        "Delete" => (Method::DELETE, true),
        _ => (Method::GET, true),
    };
    if operation["operationType"] == "Upsert" {
        set("x-ms-documentdb-is-upsert", &"True".into());
    }
    let mut path = bulk.path.clone();
    if is_named {
        let id = utf8_percent_encode(operation["id"].as_str()?, NON_ALPHANUMERIC);
        path = format!("{path}/{id}");
    }
    let body = match &operation["resourceBody"] {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    Some(Request {
        method,
        path,
        headers,
        body,
    })
}

/// Makes one answer of the answers to the requests; `None` if there are none.
pub(crate) fn joined(answers: &[Answer]) -> Option<Answer> {
    let mut joined = answers.last()?.clone();
    let results: Vec<Value> = answers.iter().map(result).collect();
    let has_failure = results
        .iter()
        .any(|it| it["statusCode"].as_u64() >= Some(400));
    joined.status = if has_failure {
        StatusCode::MULTI_STATUS
    } else {
        StatusCode::OK
    };
    joined.headers.remove("x-ms-substatus");
    joined.headers.remove("etag");
    joined.body = Value::Array(results).to_string().into_bytes();
    Some(joined)
}

fn result(answer: &Answer) -> Value {
    let header = |name: &str| answer.headers.get(name)?.to_str().ok();
    let substatus = header("x-ms-substatus").and_then(|text| text.parse::<u32>().ok());
    let mut result = json!({
        "statusCode": answer.status.as_u16(),
        "subStatusCode": substatus.unwrap_or_default(),
        "requestCharge": 1.0,
    });
    if let Some(etag) = header("etag") {
        result["eTag"] = etag.into();
    }
    match answer.json() {
        Value::Null => {}
        body if answer.status.is_success() => result["resourceBody"] = body,
        refusal => result["message"] = refusal["message"].clone(),
    }
    result
}
