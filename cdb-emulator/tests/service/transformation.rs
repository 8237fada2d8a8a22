//! Tests of index transformations during writes.

use std::time::Duration;

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

/// Sends a request for the container.
async fn container(
    account: &Account,
    method: Method,
    headers: Headers<'_>,
    body: Option<&Value>,
) -> Answer {
    account
        .send(&Request {
            method,
            resource: ("colls", "dbs/db/colls/c"),
            path: "dbs/db/colls/c",
            headers,
            body,
        })
        .await
}

async fn progress(account: &Account) -> u64 {
    let quota = [("x-ms-documentdb-populatequotainfo", "True")];
    let answer = container(account, Method::GET, &quota, None).await;
    let header = answer.header("x-ms-documentdb-collection-index-transformation-progress");
    header.parse().expect("a number")
}

async fn replace(account: &Account, path: &str) {
    let mut body = container(account, Method::GET, &[], None).await.body;
    body["indexingPolicy"]["includedPaths"] = json!([{ "path": path }]);
    body["indexingPolicy"]["excludedPaths"] = json!([{ "path": "/*" }]);
    let replaced = container(account, Method::PUT, &[], Some(&body)).await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    assert_eq!(replaced.body["indexingPolicy"], body["indexingPolicy"]);
}

async fn sorted(account: &Account, path: &str) -> Answer {
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let sql = format!("SELECT VALUE c.n FROM c ORDER BY c.{path}");
    account.query(&key, &sql, json!([])).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transformation_completes_during_writes() {
    for folder in [None, Some(tempfile::tempdir().expect("a folder"))] {
        let mut builder = Emulator::builder();
        if let Some(folder) = &folder {
            builder = builder.data_dir(folder.path());
        }
        let emulator = builder.start().await.expect("it starts");
        let definition = json!({ "indexingPolicy": { "indexingMode": "consistent",
            "includedPaths": [{ "path": "/a/?" }], "excludedPaths": [{ "path": "/*" }] } });
        let account = Account::with(emulator, definition).await;
        for batch in 0..10 {
            let operations = (0..100).map(|n| {
                let n = batch * 100 + n;
                let document = json!({ "id": n.to_string(), "pk": "p", "n": n, "a": n, "b": -n });
                json!({ "operationType": "Create", "resourceBody": document })
            });
            let created = account.batch(&operations.collect()).await;
            assert_eq!(created.status, 200);
        }
        assert_eq!(progress(&account).await, 100);
        assert_eq!(sorted(&account, "b").await.status, 400);
        replace(&account, "/b/?").await;
        let mut more = 1000;
        loop {
            // Writes during the transformation, but a limited number on a slow machine.
            if more < 2000 {
                let document =
                    json!({ "id": more.to_string(), "pk": "p", "n": more, "a": more, "b": -more });
                assert_eq!(account.create(&document).await.status, 201);
                more += 1;
            }
            if progress(&account).await == 100 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let expected: Vec<Value> = (0..more).rev().map(|n| json!(n)).collect();
        let found = sorted(&account, "b").await;
        assert_eq!(found.status, 200, "{}", found.body);
        // One page.
        assert_eq!(found.documents(), expected[..1000]);
        assert_eq!(sorted(&account, "a").await.status, 400);
    }
}

#[tokio::test]
async fn a_small_container_has_its_new_indexes_immediately() {
    let account = Account::start().await;
    account
        .create(&json!({ "id": "1", "pk": "p", "n": 1 }))
        .await;
    replace(&account, "/n/?").await;
    assert_eq!(progress(&account).await, 100);
}
