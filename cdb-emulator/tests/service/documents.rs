//! Tests of documents: ids, partition keys, patches, batches, unique keys, expiry.

use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Request};

#[tokio::test]
async fn only_ids_that_cannot_be_addressed_are_rejected() {
    let account = Account::start().await;
    for id in ["a/b", "a\\b", "a?b", "a#b", "ends in space "] {
        let answer = account.create(&json!({ "id": id, "pk": "p" })).await;
        assert_eq!(answer.status, 400, "{id}");
    }
    for id in ["plain", "a%41", "größe 😀", "a:b|c", "+&="] {
        let created = account.create(&json!({ "id": id, "pk": "p" })).await;
        assert_eq!(created.status, 201, "{id}");
        let read = account.item(Method::GET, id, &[], None).await;
        assert_eq!((read.status, &read.body["id"]), (200, &json!(id)));
    }
}

#[tokio::test]
async fn the_partition_keys_of_header_and_body_must_be_equal() {
    let account = Account::start().await;
    let answer = account.create(&json!({ "id": "a", "pk": "other" })).await;
    answer.has(400, "x-ms-substatus", "1001");
}

#[tokio::test]
async fn patches_change_paths_under_a_condition() {
    let account = Account::start().await;
    account
        .create(&json!({ "id": "a", "pk": "p", "n": 1, "list": [1], "gone": 0 }))
        .await;
    let patch = json!({
        "operations": [
            { "op": "incr", "path": "/n", "value": 4 },
            { "op": "set", "path": "/new", "value": { "x": null } },
            { "op": "add", "path": "/list/-", "value": 2 },
            { "op": "remove", "path": "/gone" },
        ],
        "condition": "from c where c.n = 1",
    });
    let patched = account.item(Method::PATCH, "a", &[], Some(&patch)).await;
    assert_eq!(patched.status, 200);
    assert_eq!(patched.body["n"], 5);
    assert_eq!(patched.body["list"], json!([1, 2]));
    assert_eq!(patched.body["new"], json!({ "x": null }));
    assert_eq!(patched.body.get("gone"), None);
    // The condition is not met any more.
    account
        .item(Method::PATCH, "a", &[], Some(&patch))
        .await
        .is(412);
    let missing = json!({ "operations": [{ "op": "replace", "path": "/none", "value": 1 }] });
    account
        .item(Method::PATCH, "a", &[], Some(&missing))
        .await
        .is(400);
    let many: Vec<Value> = (0..11)
        .map(|n| json!({ "op": "set", "path": "/n", "value": n }))
        .collect();
    let many = json!({ "operations": many });
    account
        .item(Method::PATCH, "a", &[], Some(&many))
        .await
        .is(400);
}

#[tokio::test]
async fn a_failed_batch_is_rolled_back_and_names_the_operation() {
    let account = Account::start().await;
    let create =
        |id: &str| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": "p" } });
    let good = account.batch(&json!([create("a"), create("b")])).await;
    assert_eq!((good.status, good.statuses()), (200, vec![201, 201]));
    let bad = account
        .batch(&json!([create("c"), { "operationType": "Delete", "id": "none" }, create("d")]))
        .await;
    assert_eq!((bad.status, bad.statuses()), (207, vec![424, 404, 424]));
    account.item(Method::GET, "c", &[], None).await.is(404);
    // Operations see the effects of earlier ones.
    let chained = account
        .batch(&json!([create("e"), { "operationType": "Patch", "id": "e",
            "resourceBody": { "operations": [{ "op": "set", "path": "/n", "value": 1 }] } }]))
        .await;
    assert_eq!(chained.status, 200);
}

#[tokio::test]
async fn a_batch_has_the_service_s_limits() {
    let account = Account::start().await;
    let operation = |n: usize, text: &str| {
        json!({ "operationType": "Upsert",
            "resourceBody": { "id": n.to_string(), "pk": "p", "text": text } })
    };
    let many: Vec<Value> = (0..101).map(|n| operation(n, "")).collect();
    account.batch(&many.into()).await.is(400);
    let text = "x".repeat(300_000);
    let large: Vec<Value> = (0..8).map(|n| operation(n, &text)).collect();
    account.batch(&large.into()).await.is(413);
}

#[tokio::test]
async fn a_bulk_has_a_result_per_operation() {
    let account = Account::start().await;
    let create = |id: &str, pk: &str| {
        json!({ "operationType": "Create", "partitionKey": format!("[\"{pk}\"]"),
            "resourceBody": { "id": id, "pk": pk } })
    };
    let headers = [
        ("x-ms-cosmos-is-batch-request", "true"),
        ("x-ms-cosmos-batch-atomic", "false"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let body = json!([create("a", "p"), create("a", "q"), create("a", "p")]);
    let answer = account.post(&headers, &body).await;
    assert_eq!(
        (answer.status, answer.statuses()),
        (207, vec![201, 201, 409])
    );
}

#[tokio::test]
async fn unique_keys_apply_within_a_partition_key() {
    let emulator = cdb_emulator::Emulator::start().await.expect("it starts");
    let policy = json!({ "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/mail"] }] } });
    let account = Account::with(emulator, policy).await;
    let document = |id: &str| json!({ "id": id, "pk": "p", "mail": "ada@example.org" });
    account.create(&document("a")).await.is(201);
    account.create(&document("b")).await.is(409);
    let elsewhere = json!({ "id": "b", "pk": "q", "mail": "ada@example.org" });
    let headers = [("x-ms-documentdb-partitionkey", r#"["q"]"#)];
    account.post(&headers, &elsewhere).await.is(201);
}

#[tokio::test]
async fn unique_keys_compare_values_and_not_their_text() {
    let emulator = cdb_emulator::Emulator::start().await.expect("it starts");
    let policy = json!({ "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/mail"] }] } });
    let account = Account::with(emulator, policy).await;
    let values = [
        (r"1", 201),
        (r"true", 201),
        (r#""1""#, 201),
        (r"[1]", 201),
        (r#""[1]""#, 201),
        (r#"{"a": 1, "b": 2}"#, 201),
        (r"1.0", 409),
        (r#"{"b": 2.0, "a": 1}"#, 409),
        (r"[1.0]", 409),
        (r"null", 201),
    ];
    for (number, (value, status)) in values.into_iter().enumerate() {
        let value: Value = serde_json::from_str(value).expect("it is JSON");
        let document = json!({ "id": number.to_string(), "pk": "p", "mail": value });
        let answer = account.create(&document).await;
        assert_eq!(answer.status, status, "{document}");
    }
    let missing = json!({ "id": "missing", "pk": "p" });
    account.create(&missing).await.is(409);
}

#[tokio::test]
async fn a_read_ignores_if_match_and_a_batch_the_conditions_of_its_reads() {
    let account = Account::start().await;
    account
        .create(&json!({ "id": "a", "pk": "p" }))
        .await
        .is(201);
    let other = [("if-match", "\"other\"")];
    account.item(Method::GET, "a", &other, None).await.is(200);
    for condition in ["ifMatch", "ifNoneMatch"] {
        let etag = if condition == "ifMatch" {
            "\"other\""
        } else {
            "*"
        };
        let read = json!({ "operationType": "Read", "id": "a", condition: etag });
        let create = json!({ "operationType": "Create",
            "resourceBody": { "id": condition, "pk": "p" } });
        let answer = account.batch(&json!([read, create])).await;
        assert_eq!(answer.status, 200, "{condition}: {}", answer.body);
    }
}

#[tokio::test]
async fn unique_keys_cannot_be_changed_or_omitted() {
    let emulator = cdb_emulator::Emulator::start().await.expect("it starts");
    let keys = json!({ "uniqueKeys": [{ "paths": ["/mail"] }] });
    let account = Account::with(emulator, json!({ "uniqueKeyPolicy": keys })).await;
    for (policy, status) in [
        (keys, 200),
        (json!({ "uniqueKeys": [] }), 403),
        (Value::Null, 403),
    ] {
        let body = json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
            "uniqueKeyPolicy": policy });
        let answer = account
            .send(&Request::container(Method::PUT).body(&body))
            .await;
        assert_eq!(answer.status, status, "{policy}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_expires_in_simulated_time() {
    let emulator = cdb_emulator::Emulator::builder();
    let account = Account::simulated(emulator, json!({ "defaultTtl": -1 })).await;
    account
        .create(&json!({ "id": "a", "pk": "p", "ttl": 86_400 }))
        .await;
    account.create(&json!({ "id": "b", "pk": "p" })).await;
    let null = account
        .create(&json!({ "id": "c", "pk": "p", "ttl": null }))
        .await;
    assert_eq!(null.status, 400);
    // Not before its time has passed, and within a second after it.
    for (milliseconds, status) in [(86_399_990, 200), (1010, 404)] {
        tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
        let read = account.item(Method::GET, "a", &[], None).await;
        assert_eq!(read.status, status, "{}", read.body);
    }
    account.item(Method::GET, "b", &[], None).await.is(200);
    account
        .create(&json!({ "id": "a", "pk": "p" }))
        .await
        .is(201);
}

/// Source: azure_data_cosmos_driver, docs/BINARY_ENCODING_ROUNDTRIP_FUZZER.md 3.1: "the backend
/// stores them as IEEE-754 doubles (lossy) and returns scientific notation".
#[tokio::test]
async fn integers_beyond_2_to_the_53_are_stored_as_doubles() {
    let account = Account::start().await;
    let document = json!({ "id": "a", "pk": "p", "exact": -9_007_199_254_740_991_i64,
        "rounded": [9_007_199_254_740_993_u64, u64::MAX], "deep": { "n": i64::MIN } });
    account.create(&document).await.is(201);
    let read = account.item(Method::GET, "a", &[], None).await;
    assert_eq!(read.body["exact"], -9_007_199_254_740_991_i64);
    let rounded = [9.007_199_254_740_992e15, 1.844_674_407_370_955_2e19];
    assert_eq!(read.body["rounded"], json!(rounded));
    assert_eq!(read.body["deep"]["n"], json!(-9.223_372_036_854_776e18));
    let patch = json!({ "operations": [{ "op": "set", "path": "/n", "value": u64::MAX }] });
    let patched = account.item(Method::PATCH, "a", &[], Some(&patch)).await;
    assert_eq!(patched.body["n"], json!(1.844_674_407_370_955_2e19));
}
