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

/// Rust SDK, emulator_tests/cosmos_rid_addressing.rs.
#[tokio::test]
async fn database_and_container_are_found_by_their_resource_ids() {
    let account = Account::start().await;
    account
        .create(&json!({ "id": "1", "pk": "p" }))
        .await
        .is(201);
    let container = account.send(&Request::container(Method::GET)).await;
    let database = account.database().await;
    let rid = |answer: &Answer| answer.body["_rid"].as_str().expect("its id").to_owned();
    let (database, container) = (rid(&database), rid(&container));
    let (signed_database, signed) = (database.to_lowercase(), container.to_lowercase());
    let path = format!("dbs/{database}");
    let read = Request::new(Method::GET, ("dbs", &signed_database), &path);
    account.send(&read).await.is(200);
    let path = format!("{path}/colls/{container}");
    let read = account
        .send(&Request::new(Method::GET, ("colls", &signed), &path))
        .await;
    assert_eq!(read.body["id"], "c");
    let documents = format!("{path}/docs");
    let headers = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let read = Request::new(Method::GET, ("docs", &signed), &documents).headers(&headers);
    assert_eq!(account.send(&read).await.documents().len(), 1);
    let document = format!("{documents}/1");
    let read = Request::new(Method::GET, ("docs", &signed), &document).headers(&headers);
    account.send(&read).await.is(400);
}

/// Rust SDK, emulator_tests: cosmos_items.rs, cosmos_response_metadata.rs, cosmos_containers.rs.
#[tokio::test]
async fn answers_carry_duration_lsn_and_physical_partition() {
    let account = Account::start().await;
    let missing = account.item(Method::GET, "1", &[], None).await;
    missing.is(404);
    let before: i64 = missing.header("lsn").parse().expect("a number");
    assert_eq!(missing.header("x-ms-documentdb-partitionkeyrangeid"), "0");
    let created = account.create(&json!({ "id": "1", "pk": "p" })).await;
    let after: i64 = created.header("lsn").parse().expect("a number");
    assert!(after > before);
    let found = account.item(Method::GET, "1", &[], None).await;
    assert_eq!(found.header("x-ms-item-lsn"), after.to_string());
    let duration: f64 = created
        .header("x-ms-request-duration-ms")
        .parse()
        .expect("a number");
    assert!(duration >= 0.0);
    let policy = define(&account, "d", indexing("/a/?")).await;
    assert_eq!(policy.body["indexingPolicy"]["automatic"], true);
}
