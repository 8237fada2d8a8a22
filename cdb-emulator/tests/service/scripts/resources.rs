//! Tests of scripts as resources.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use super::{define, execute, send};
use crate::account::{Account, Headers, Request};

#[tokio::test]
async fn a_script_is_created_read_replaced_and_deleted() {
    let account = Account::start().await;
    for (kind, segment) in [("sprocs", "gA=="), ("triggers", "cA=="), ("udfs", "YA==")] {
        let definition = json!({ "id": "s", "body": "function f() {}",
            "triggerType": "pre", "triggerOperation": "all" });
        let created = send(&account, Method::POST, (kind, ""), (&[], Some(&definition))).await;
        assert_eq!(created.status, 201, "{}", created.body);
        assert_eq!(created.body["body"], "function f() {}");
        assert_eq!(created.header("etag"), created.body["_etag"], "{kind}");
        assert!(created.body["_ts"].is_u64(), "{kind}");
        let rid = created.body["_rid"].as_str().expect("a resource id");
        assert!(rid.ends_with(segment), "{kind} {rid}");
        let link = created.body["_self"].as_str().expect("a link");
        assert!(link.ends_with(&format!("/{kind}/{rid}/")), "{link}");

        let again = send(&account, Method::POST, (kind, ""), (&[], Some(&definition))).await;
        assert_eq!(again.status, 409, "{kind}");
        let read = send(&account, Method::GET, (kind, "s"), (&[], None)).await;
        assert_eq!((read.status, &read.body), (200, &created.body));

        let mut changed = definition.clone();
        changed["body"] = "function g() {}".into();
        let stale: Headers<'_> = &[("if-match", "\"stale\"")];
        let refused = send(&account, Method::PUT, (kind, "s"), (stale, Some(&changed))).await;
        assert_eq!(refused.status, 412, "{kind}");
        let replaced = send(&account, Method::PUT, (kind, "s"), (&[], Some(&changed))).await;
        assert_eq!(replaced.status, 200, "{}", replaced.body);
        assert_eq!(replaced.body["body"], "function g() {}");
        assert_ne!(replaced.body["_etag"], created.body["_etag"]);

        let deleted = send(&account, Method::DELETE, (kind, "s"), (&[], None)).await;
        assert_eq!(deleted.status, 204, "{kind}");
        let gone = send(&account, Method::GET, (kind, "s"), (&[], None)).await;
        assert_eq!(gone.status, 404, "{kind}");
    }
}

#[tokio::test]
async fn scripts_are_listed_and_queried_by_kind() {
    let account = Account::start().await;
    for id in ["b", "a"] {
        define(&account, "udfs", &json!({ "id": id, "body": "() => 1" })).await;
    }
    let list = send(&account, Method::GET, ("udfs", ""), (&[], None)).await;
    let functions = list.body["UserDefinedFunctions"]
        .as_array()
        .expect("a list");
    let ids: Vec<&Value> = functions.iter().map(|each| &each["id"]).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(list.body["_count"], 2);
    let headers: Headers<'_> = &[("x-ms-documentdb-isquery", "True")];
    let query = json!({ "query": "SELECT * FROM root r WHERE r.id = 'b'" });
    let found = send(
        &account,
        Method::POST,
        ("udfs", ""),
        (headers, Some(&query)),
    )
    .await;
    assert_eq!(
        found.body["UserDefinedFunctions"][0]["id"], "b",
        "{}",
        found.body
    );
    let others = send(&account, Method::GET, ("sprocs", ""), (&[], None)).await;
    assert_eq!(others.body["StoredProcedures"], json!([]));
}

#[tokio::test]
async fn an_invalid_definition_is_refused() {
    let account = Account::start().await;
    let body = "function f() {}";
    for (kind, definition) in [
        ("sprocs", json!({ "body": body })),
        ("sprocs", json!({ "id": "a/b", "body": body })),
        ("sprocs", json!({ "id": "s" })),
        ("udfs", json!({ "id": "s", "body": 1 })),
        ("triggers", json!({ "id": "s", "body": body })),
        (
            "triggers",
            json!({ "id": "s", "body": body, "triggerType": "Pre", "triggerOperation": "Insert" }),
        ),
        (
            "triggers",
            json!({ "id": "s", "body": body, "triggerType": "Before", "triggerOperation": "All" }),
        ),
    ] {
        let refused = send(&account, Method::POST, (kind, ""), (&[], Some(&definition))).await;
        assert_eq!(refused.status, 400, "{definition}");
    }
}

#[tokio::test]
async fn scripts_are_deleted_with_their_container() {
    let account = Account::start().await;
    define(
        &account,
        "sprocs",
        &json!({ "id": "s", "body": "() => {}" }),
    )
    .await;
    let request = |method| Request {
        method,
        resource: ("colls", "dbs/db/colls/c"),
        path: "dbs/db/colls/c",
        headers: &[],
        body: None,
    };
    assert_eq!(account.send(&request(Method::DELETE)).await.status, 204);
    let missing = send(&account, Method::GET, ("sprocs", "s"), (&[], None)).await;
    assert_eq!(missing.status, 404);
    let again = Account::with(account.emulator, json!({})).await;
    let list = send(&again, Method::GET, ("sprocs", ""), (&[], None)).await;
    assert_eq!(list.body["StoredProcedures"], json!([]));
}

#[tokio::test]
async fn scripts_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = || Emulator::builder().data_dir(directory.path()).start();
    let account = Account::with(start().await.expect("it starts"), json!({})).await;
    let body = "function f(n) { getContext().getResponse().setBody(n + 1); }";
    define(&account, "sprocs", &json!({ "id": "s", "body": body })).await;
    account.emulator.stop().await;
    let account = Account::with(start().await.expect("it starts"), json!({})).await;
    let answer = execute(&account, "s", super::IN_P, json!([1])).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(2)));
}
