//! Prefixes of hierarchical partition keys: only the bounds of a range read one.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::json;

use crate::account::{Account, Answer, Headers, Request};

/// The hash of the prefix `a`, computed with azure-cosmos 4.17.1 for Python, and its end
/// (azure_data_cosmos_driver `effective_partition_key.rs`).
const BOUNDS: [(&str, &str); 2] = [
    ("x-ms-start-epk", "3A5381E1114EB8D3FCC90795045B49B7"),
    ("x-ms-end-epk", "3A5381E1114EB8D3FCC90795045B49B7FF"),
];
const TYPE: (&str, &str) = ("x-ms-read-key-type", "EffectivePartitionKeyRange");
const PREFIX: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"a\"]");
const RANGE: (&str, &str) = ("x-ms-documentdb-partitionkeyrangeid", "0");

/// Source: azure-documentdb-java `GatewayTests`, `testDocumentKeyExtractionWithEscapeCharacters1`.
#[tokio::test]
async fn a_path_of_a_key_may_have_quoted_names() {
    let key = json!({ "paths": ["/\"level' 1*()\"/\"le/vel2\""], "kind": "Hash", "version": 2 });
    let emulator = Emulator::start().await.expect("it starts");
    let account = Account::with(emulator, json!({ "partitionKey": key })).await;
    let body = json!({ "id": "a", "level' 1*()": { "le/vel2": "v" } });
    account.post(&[(PREFIX.0, "[\"v\"]")], &body).await.is(201);
    account.post(&[(PREFIX.0, "[\"w\"]")], &body).await.is(400);
}

/// Two documents of tenant `a`, and one of tenant `b`.
async fn tenants() -> Account {
    let key = json!({ "paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2 });
    let definition = json!({ "partitionKey": key });
    let emulator = Emulator::start().await.expect("it starts");
    let account = Account::with(emulator, definition).await;
    for (tenant, user) in [("a", "1"), ("a", "2"), ("b", "1")] {
        let key = json!([tenant, user]).to_string();
        let body = json!({ "id": format!("{tenant}{user}"), "tenant": tenant, "user": user });
        let created = account.post(&[(PREFIX.0, &key)], &body).await;
        created.is(201);
    }
    account
}

async fn query(account: &Account, headers: Headers<'_>) -> Answer {
    account
        .query(headers, "SELECT VALUE c.id FROM c", json!([]))
        .await
}

/// Sources: azure-sdk-for-rust `emulator_tests/cosmos_hpk.rs`, azure-cosmos-dotnet-v3
/// `AddressResolverPartitionKeyResolutionTests.cs` (`U31_PartialHierarchicalPrefix`).
#[tokio::test]
async fn a_prefix_is_refused_as_a_partition_key() {
    let account = tenants().await;
    let feed = account
        .send(&Request::docs(Method::GET).headers(&[PREFIX]))
        .await;
    let read = Request::to(Method::GET, "docs", "dbs/db/colls/c/docs/a1");
    let read = account.send(&read.headers(&[PREFIX])).await;
    for refused in [query(&account, &[PREFIX]).await, feed, read] {
        let substatus = refused.header("x-ms-substatus");
        assert_eq!(
            (refused.status, substatus),
            (400, "1001"),
            "{}",
            refused.body
        );
    }
}

/// Sources: azure-cosmos-dotnet-v3 `RequestInvokerHandler.cs`, azure-sdk-for-rust#4680, #4729.
#[tokio::test]
async fn only_the_bounds_of_a_prefix_exclude_other_tenants() {
    let account = tenants().await;
    let [start, end] = BOUNDS;
    let rows = query(&account, &[RANGE, start, end, TYPE]).await;
    assert_eq!(rows.documents(), [json!("a1"), json!("a2")]);
    let rows = query(&account, &[RANGE, PREFIX, start, end, TYPE]).await;
    assert_eq!(rows.documents(), [json!("a1"), json!("a2")]);
    // The whole physical partition.
    let rows = query(&account, &[RANGE, PREFIX]).await;
    assert_eq!(rows.documents().len(), 3);
    let point = (TYPE.0, "EffectivePartitionKey");
    query(&account, &[RANGE, start, end, point]).await.is(400);
    query(&account, &[RANGE, start, end]).await.is(400);
}
