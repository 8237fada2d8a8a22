//! Tests of containers with partition key version 1.

use std::collections::BTreeMap;

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Request};

/// Starts an account whose container has a partition key without a version, which is version 1.
async fn version_1(partitions: u32) -> Account {
    let builder = Emulator::builder().physical_partitions(partitions);
    let emulator = builder.start().await.expect("it starts");
    let key = json!({ "partitionKey": { "paths": ["/pk"], "kind": "Hash" } });
    Account::with(emulator, key).await
}

async fn create(account: &Account, key: &Value) -> Answer {
    let header = json!([key]).to_string();
    let headers = [("x-ms-documentdb-partitionkey", &*header)];
    let id = uuid::Uuid::new_v4().to_string();
    account
        .post(&headers, &json!({ "id": id, "pk": key }))
        .await
}

/// Returns the keys of the documents in each physical partition.
async fn contents(account: &Account) -> BTreeMap<String, Vec<Value>> {
    let listed = account.send(&Request::ranges()).await;
    let mut contents = BTreeMap::new();
    for range in listed.body["PartitionKeyRanges"]
        .as_array()
        .expect("a list")
    {
        let id = range["id"].as_str().expect("an id");
        let scope = [("x-ms-documentdb-partitionkeyrangeid", id)];
        let found = account
            .query(&scope, "SELECT VALUE c.pk FROM c", json!([]))
            .await;
        contents.insert(id.to_owned(), found.documents());
    }
    contents
}

/// The hashes of these keys in the vectors of Microsoft's clients begin with `05C1CF`, `05C1D7`,
/// `05C1E1` and `05C1ED`; four partitions begin at `""`, `05C1CF…F8`, `05C1DF…FC`, `05C1E7…FE`.
#[tokio::test]
async fn documents_are_stored_where_the_official_clients_expect_them() {
    let account = version_1(4).await;
    for key in [json!(""), json!(true), json!("partitionKey"), json!(null)] {
        assert_eq!(create(&account, &key).await.status, 201);
    }
    let stored: Vec<_> = contents(&account).await.into_values().collect();
    let expected = [
        vec![json!("")],
        vec![json!(true)],
        vec![json!("partitionKey")],
        vec![json!(null)],
    ];
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn a_split_divides_the_documents_of_a_partition() {
    let account = version_1(1).await;
    for n in 0..100 {
        create(&account, &json!(format!("key-{n}"))).await.is(201);
    }
    let [low, high] = account.emulator.split("db", "c", "0").unwrap();
    account.emulator.split("db", "c", &high).unwrap();
    let contents = contents(&account).await;
    let counts: Vec<usize> = contents.values().map(Vec::len).collect();
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert!((30..70).contains(&counts[0]), "{low}: {counts:?}");
    assert!(
        counts[1..].iter().all(|count| (10..40).contains(count)),
        "{counts:?}"
    );
    for (range, keys) in contents {
        let operations: Vec<Value> = keys
            .iter()
            .map(|key| {
                json!({ "operationType": "Create", "partitionKey": json!([key]).to_string(),
                    "resourceBody": { "id": "second", "pk": key } })
            })
            .collect();
        let headers = [
            ("x-ms-documentdb-partitionkeyrangeid", &*range),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "False"),
        ];
        let created = account.post(&headers, &json!(operations)).await;
        assert_eq!(created.status, 200, "partition {range}: {}", created.body);
    }
}

#[tokio::test]
async fn the_plan_of_a_query_names_the_hash_of_its_key() {
    let account = version_1(1).await;
    let headers = [
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-documentdb-isquery", "True"),
    ];
    let query = json!({ "query": "SELECT * FROM c WHERE c.pk = true" });
    let plan = account.post(&headers, &query).await;
    assert_eq!(plan.body["queryRanges"][0]["min"], "05C1D7C5A903D803");
}

#[tokio::test]
async fn an_invalid_or_changed_version_is_rejected() {
    let account = version_1(1).await;
    let send = async |method: Method, id: &str, key: Value| {
        let body = json!({ "id": id, "partitionKey": key });
        let (resource, path) = match method {
            Method::PUT => ("dbs/db/colls/c", "dbs/db/colls/c"),
            _ => ("dbs/db", "dbs/db/colls"),
        };
        let request = Request::new(method, ("colls", resource), path).body(&body);
        account.send(&request).await
    };
    for (key, reason) in [
        (json!({ "paths": ["/a"], "version": 3 }), "neither 1 nor 2"),
        (
            json!({ "paths": ["/a", "/b"], "kind": "MultiHash", "version": 1 }),
            "has version 2",
        ),
    ] {
        let refused = send(Method::POST, "d", key).await;
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(
            refused.status == 400 && message.contains(reason),
            "{message}"
        );
    }
    let key = |version: u8| json!({ "paths": ["/pk"], "kind": "Hash", "version": version });
    assert_eq!(send(Method::PUT, "c", key(2)).await.status, 400);
    assert_eq!(send(Method::PUT, "c", key(1)).await.status, 200);
    let without = json!({ "paths": ["/pk"] });
    let kept = send(Method::PUT, "c", without).await.body["partitionKey"]["version"].clone();
    assert_eq!(kept, 1);
}
