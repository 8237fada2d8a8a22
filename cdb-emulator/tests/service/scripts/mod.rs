//! Tests of stored procedures, triggers and user-defined functions. The scripts follow Microsoft's
//! documentation and samples.

mod functions;
mod limits;
mod procedures;
mod query_api;
mod resources;
mod triggers;

use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

const CONTAINER: &str = "dbs/db/colls/c";
const IN_P: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];

/// Sends a request for the scripts of a kind: a list or, with an id, one script.
async fn send(
    account: &Account,
    method: Method,
    (kind, id): (&str, &str),
    (headers, body): (Headers<'_>, Option<&Value>),
) -> Answer {
    let one = format!("{CONTAINER}/{kind}/{id}");
    let list = format!("{CONTAINER}/{kind}");
    let (link, path) = if id.is_empty() {
        (CONTAINER, &list)
    } else {
        (&*one, &one)
    };
    account
        .send(&Request {
            method,
            resource: (kind, link),
            path,
            headers,
            body,
        })
        .await
}

/// Creates a script.
async fn define(account: &Account, kind: &str, definition: &Value) {
    let created = send(account, Method::POST, (kind, ""), (&[], Some(definition))).await;
    assert_eq!(created.status, 201, "{}", created.body);
}

/// Creates a stored procedure and executes it in partition key `p`.
async fn run(account: &Account, body: &str, parameters: Value) -> Answer {
    let headers: Headers<'_> = &[("x-ms-documentdb-is-upsert", "True")];
    let definition = json!({ "id": "script", "body": body });
    let stored = send(
        account,
        Method::POST,
        ("sprocs", ""),
        (headers, Some(&definition)),
    )
    .await;
    assert!(matches!(stored.status, 200 | 201), "{}", stored.body);
    execute(account, "script", IN_P, parameters).await
}

async fn execute(account: &Account, id: &str, headers: Headers<'_>, parameters: Value) -> Answer {
    let call = (headers, Some(&parameters));
    send(account, Method::POST, ("sprocs", id), call).await
}

/// Creates documents `0`, `1` and so on in partition key `p`.
async fn fill(account: &Account, documents: &[Value]) {
    for (n, document) in documents.iter().enumerate() {
        let mut document = document.clone();
        document["id"] = n.to_string().into();
        document["pk"] = "p".into();
        let created = account.create(&document).await;
        assert_eq!(created.status, 201, "{}", created.body);
    }
}

/// Returns the rows of a query in partition key `p`.
async fn rows(account: &Account, sql: &str) -> Vec<Value> {
    let answer = account.query(IN_P, sql, json!([])).await;
    assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
    answer.documents()
}

/// Checks that a script failed with this sub-status and a message that contains `cause`.
fn assert_failed(answer: &Answer, substatus: &str, cause: &str) {
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert_eq!(
        answer.header("x-ms-substatus"),
        substatus,
        "{}",
        answer.body
    );
    let message = answer.body["message"].as_str().unwrap_or_default();
    assert!(message.contains(cause), "{message}");
}
