//! Tests of containers: rejected definitions, and unusual names.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Request};

async fn define(account: &Account, id: &str, policy: Value) -> Answer {
    let body = json!({ "id": id, "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
        "indexingPolicy": policy });
    account.send(&Request::new_container().body(&body)).await
}

fn indexing(path: &str) -> Value {
    json!({ "indexingMode": "consistent", "includedPaths": [{ "path": path }],
        "excludedPaths": [{ "path": "/*" }] })
}

#[tokio::test]
async fn a_rejected_container_is_not_created() {
    let account = Account::start().await;
    let refused = define(&account, "d", indexing("/a\0b/?")).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let again = define(&account, "d", indexing("/a/?")).await;
    assert_eq!(again.status, 201, "{}", again.body);
}

#[tokio::test]
async fn unusual_property_names_are_indexed() {
    let account = Account::with(
        Emulator::start().await.expect("it starts"),
        json!({ "indexingPolicy": { "indexingMode": "consistent", "excludedPaths": [{ "path": "/*" }],
            "includedPaths": [{ "path": "/\"it's\"/?" }, { "path": "/\"a b\"/?" }, { "path": "/n/?" }] } }),
    )
    .await;
    let document =
        json!({ "id": "1", "pk": "p", "it's": 1, "a b": 2, "q\"q": 3, "back\\slash": 4, "é": 5 });
    account.create(&document).await.is(201);
    for condition in [
        r#"c["it's"] = 1"#,
        r#"c["a b"] = 2"#,
        r#"c["q\"q"] = 3"#,
        r#"c["back\\slash"] = 4"#,
        r#"c["é"] = 5"#,
    ] {
        let sql = format!("SELECT VALUE c.id FROM c WHERE {condition}");
        let headers = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
        let found = account.query(&headers, &sql, json!([])).await;
        assert_eq!(found.status, 200, "{condition}: {}", found.body);
        assert_eq!(found.documents(), [json!("1")], "{condition}");
    }
}

#[tokio::test]
async fn equal_numbers_are_the_same_partition_key() {
    let account = Account::start().await;
    let document = json!({ "id": "1", "pk": 1.0 });
    let headers = [("x-ms-documentdb-partitionkey", "[1]")];
    let created = account.post(&headers, &document).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let headers = [("x-ms-documentdb-partitionkey", "[1.0]")];
    let found = account
        .query(&headers, "SELECT VALUE c.id FROM c", json!([]))
        .await;
    assert_eq!(found.documents(), [json!("1")]);
}

#[tokio::test]
async fn a_deletion_of_a_container_keeps_a_newer_one() {
    let account = Account::start().await;
    let created = define(&account, "d", indexing("/a/?")).await;
    let etag = created.body["_etag"].as_str().expect("its version");
    for (version, status) in [("\"other\"", 412), (etag, 204)] {
        let headers = [("if-match", version)];
        let deletion = Request::to(Method::DELETE, "colls", "dbs/db/colls/d").headers(&headers);
        assert_eq!(account.send(&deletion).await.status, status);
    }
}
