//! Tests of replaced indexing policies.

use std::time::Duration;

use cdb_emulator::{Emulator, IndexBuild};
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request, ask};

/// Sends a request for the container.
async fn container(
    account: &Account,
    method: Method,
    headers: Headers<'_>,
    body: Option<&Value>,
) -> Answer {
    account
        .send(&Request::container(method).headers(headers).body(body))
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

#[tokio::test]
async fn a_replaced_policy_serves_sorts_immediately() {
    for folder in [None, Some(tempfile::tempdir().expect("a folder"))] {
        let mut builder = Emulator::builder();
        if let Some(folder) = &folder {
            builder = builder.data_dir(folder.path());
        }
        let emulator = builder.start().await.expect("it starts");
        let definition = json!({ "indexingPolicy": { "indexingMode": "consistent",
            "includedPaths": [{ "path": "/a/?" }], "excludedPaths": [{ "path": "/*" }] } });
        let account = Account::with(emulator, definition).await;
        let document = |n: i32| json!({ "id": n.to_string(), "pk": "p", "n": n, "a": n, "b": -n });
        for n in 0..20 {
            account.create(&document(n)).await.is(201);
        }
        assert_eq!(progress(&account).await, 100);
        assert_eq!(sorted(&account, "b").await.status, 400);
        replace(&account, "/b/?").await;
        assert_eq!(progress(&account).await, 100);
        account.create(&document(20)).await.is(201);
        let expected: Vec<Value> = (0..=20).rev().map(|n| json!(n)).collect();
        assert_eq!(sorted(&account, "b").await.documents(), expected);
        assert_eq!(sorted(&account, "a").await.status, 400);
    }
}

/// Adds a composite index of `/a` and `/b` to the policy.
async fn add_composite(account: &Account) {
    let mut body = container(account, Method::GET, &[], None).await.body;
    let composite = [json!({ "path": "/a" }), json!({ "path": "/b" })];
    body["indexingPolicy"]["compositeIndexes"] = json!([composite]);
    let replaced = container(account, Method::PUT, &[], Some(&body)).await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
}

#[tokio::test]
async fn a_composite_index_serves_no_sort_until_its_build_is_complete() {
    let builder = Emulator::builder().index_build(IndexBuild::Held);
    let account = Account::with(builder.start().await.expect("it starts"), json!({})).await;
    let document = json!({ "id": "1", "pk": "p", "n": 1, "a": 1, "b": 2 });
    account.create(&document).await.is(201);
    assert_eq!(progress(&account).await, 100);
    add_composite(&account).await;
    for percent in [0, 40, 99] {
        let set = account.emulator.set_index_progress("db", "c", percent);
        set.expect("the container exists");
        assert_eq!(progress(&account).await, u64::from(percent));
        let refused = sorted(&account, "a, c.b").await;
        assert_eq!(refused.status, 400);
        assert!(
            refused.body.to_string().contains("composite index"),
            "{}",
            refused.body
        );
        assert_eq!(
            sorted(&account, "a").await.status,
            200,
            "another index serves it"
        );
    }
    let set = account.emulator.set_index_progress("db", "c", 100);
    set.expect("the container exists");
    assert_eq!(progress(&account).await, 100);
    assert_eq!(sorted(&account, "a, c.b").await.documents(), [json!(1)]);
    let missing = account.emulator.set_index_progress("db", "d", 100);
    let missing = missing.expect_err("no container").to_string();
    assert!(missing.contains("container db/d"), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn an_index_build_lasts_in_simulated_time() {
    let build = IndexBuild::Lasting(Duration::from_secs(200));
    let account = Account::simulated(Emulator::builder().index_build(build), json!({})).await;
    add_composite(&account).await;
    for (seconds, percent, status) in [(100, 50, 400), (99, 99, 400), (1, 100, 200)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(progress(&account).await, percent);
        assert_eq!(sorted(&account, "a, c.b").await.status, status);
    }
}

#[tokio::test]
async fn an_index_build_is_changed_over_http() {
    let account = Account::start().await;
    let admin = async |route: &str, body: Value| {
        let (emulator, body) = (&account.emulator, body.to_string());
        ask(emulator, Method::POST, &format!("_admin/{route}"), &body).await
    };
    let build = async |build: &Value| {
        let (status, state) = admin("settings", json!({ "indexBuild": build })).await;
        (status, state["indexBuild"].clone())
    };
    let lasting = json!({ "lastingMs": 500.0 });
    assert_eq!(build(&lasting).await, (200, lasting));
    assert_eq!(build(&json!("held")).await.0, 200);
    replace(&account, "/a/?").await;
    assert_eq!(progress(&account).await, 0);
    let done = json!({ "database": "db", "container": "c", "progress": 100 });
    assert_eq!(admin("indexes", done).await.0, 200);
    assert_eq!(progress(&account).await, 100);
    assert_eq!(build(&json!("slow")).await.0, 400);
}
