//! Tests of writes: conditions, invalid requests, and numbers.

use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer};

const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "True");

async fn upsert(account: &Account, condition: (&str, &str), document: &Value) -> Answer {
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    account.post(&[key, UPSERT, condition], document).await
}

#[tokio::test]
async fn an_upsert_that_creates_ignores_its_conditions() {
    let account = Account::start().await;
    for (at, header) in ["if-match", "if-none-match"].into_iter().enumerate() {
        let document = json!({ "id": at.to_string(), "pk": "p" });
        let created = upsert(&account, (header, "\"some\""), &document).await;
        assert_eq!(created.status, 201, "{header}");
    }
}

#[tokio::test]
async fn an_upsert_that_replaces_applies_both_conditions() {
    let account = Account::start().await;
    let document = json!({ "id": "a", "pk": "p" });
    let created = account.create(&document).await;
    let etag = created.header("etag");
    for (condition, status) in [
        (("if-match", "\"other\""), 412),
        (("if-none-match", etag), 412),
        (("if-none-match", "*"), 412),
        (("if-none-match", "\"other\""), 200),
        (("if-match", "*"), 200),
    ] {
        let answer = upsert(&account, condition, &document).await;
        assert_eq!(answer.status, status, "{condition:?}");
    }
}

#[tokio::test]
async fn a_read_unless_any_version_matches_is_not_modified() {
    let account = Account::start().await;
    account.create(&json!({ "id": "a", "pk": "p" })).await;
    let any = [("if-none-match", "*")];
    let read = account.item(Method::GET, "a", &any, None).await;
    assert_eq!(read.status, 304);
}

#[tokio::test]
async fn a_replacement_can_have_another_unused_id() {
    let account = Account::start().await;
    let first = account.create(&json!({ "id": "a", "pk": "p" })).await;
    account.create(&json!({ "id": "taken", "pk": "p" })).await;
    let taken = json!({ "id": "taken", "pk": "p" });
    let refused = account.item(Method::PUT, "a", &[], Some(&taken)).await;
    assert_eq!(refused.status, 409);
    let renamed = json!({ "id": "b", "pk": "p" });
    let renamed = account.item(Method::PUT, "a", &[], Some(&renamed)).await;
    assert_eq!((renamed.status, &renamed.body["id"]), (200, &json!("b")));
    assert_eq!(renamed.body["_rid"], first.body["_rid"]);
    for (id, status) in [("a", 404), ("b", 200), ("taken", 200)] {
        let read = account.item(Method::GET, id, &[], None).await;
        assert_eq!(read.status, status, "{id}");
    }
}

#[tokio::test]
async fn an_invalid_request_is_rejected_whatever_is_stored() {
    let account = Account::start().await;
    account.create(&json!({ "id": "there", "pk": "p" })).await;
    let elsewhere = json!({ "id": "there", "pk": "elsewhere" });
    account.create(&elsewhere).await.is(400);
    let nothing = json!({ "operations": [] });
    for (method, body) in [(Method::PUT, &elsewhere), (Method::PATCH, &nothing)] {
        let answer = account.item(method, "missing", &[], Some(body)).await;
        assert_eq!(answer.status, 400);
    }
}

#[tokio::test]
async fn numbers_are_stored_exactly() {
    let account = Account::start().await;
    let document = r#"{"id":"a","pk":"p","n":[3.0,-0.0,1e3,0.5,123.45600000000002]}"#;
    let document = serde_json::from_str(document).expect("it is JSON");
    account.create(&document).await;
    let read = account.item(Method::GET, "a", &[], None).await;
    let kept = "[3,0,1000,0.5,123.45600000000002]";
    assert_eq!(read.body["n"].to_string(), kept);
}

#[tokio::test]
async fn a_patch_rejects_invalid_array_indexes() {
    let account = Account::start().await;
    account
        .create(&json!({ "id": "a", "pk": "p", "list": [1, 2] }))
        .await;
    for (path, status) in [("/list/1", 200), ("/list/01", 400), ("/list/+1", 400)] {
        let patch = json!({ "operations": [{ "op": "set", "path": path, "value": 0 }] });
        let answer = account.item(Method::PATCH, "a", &[], Some(&patch)).await;
        assert_eq!(answer.status, status, "{path}");
    }
}
