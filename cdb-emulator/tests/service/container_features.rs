//! Tests of computed properties, of the change feed of all versions and deletes, of the deletion of
//! a partition key, and of the order of properties.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

const IN_P: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];

async fn with(definition: Value) -> Account {
    Account::with(Emulator::start().await.expect("it starts"), definition).await
}

async fn rows(account: &Account, sql: &str) -> Vec<Value> {
    let answer = account.query(IN_P, sql, json!([])).await;
    assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
    answer.documents()
}

async fn computed(indexed: bool) -> Account {
    let paths = if indexed {
        json!([{ "path": "/*" }, { "path": "/lower/?" }])
    } else {
        json!([{ "path": "/*" }])
    };
    let account = with(json!({
        "computedProperties": [
            { "name": "lower", "query": "SELECT VALUE LOWER(d.name) FROM d" },
            { "name": "name", "query": "SELECT VALUE UPPER(c.name) FROM c" },
        ],
        "indexingPolicy": {
            "includedPaths": paths, "excludedPaths": [{ "path": "/\"_etag\"/?" }],
            "compositeIndexes": [[{ "path": "/pk" }, { "path": "/lower", "order": "descending" }]],
        },
    }))
    .await;
    for (n, name) in ["Bob", "ANN", "cid"].into_iter().enumerate() {
        let document = json!({ "id": n.to_string(), "pk": "p", "name": name });
        account.create(&document).await.is(201);
    }
    account
}

/// Deletes all documents with partition key `p`.
async fn delete_partition(account: &Account) {
    let path = "dbs/db/colls/c/operations/partitionkeydelete";
    let request = Request::new(Method::POST, ("colls", "dbs/db/colls/c"), path).headers(IN_P);
    account.send(&request).await.is(200);
}

#[tokio::test]
async fn computed_properties_filter_sort_and_project() {
    let account = computed(true).await;
    for (sql, expected) in [
        (
            "SELECT VALUE c.id FROM c WHERE c.lower = 'ann'",
            json!(["1"]),
        ),
        (
            "SELECT VALUE c.lower FROM c ORDER BY c.lower",
            json!(["ann", "bob", "cid"]),
        ),
        (
            "SELECT TOP 1 c.lower FROM c ORDER BY c.lower DESC",
            json!([{ "lower": "cid" }]),
        ),
        (
            "SELECT VALUE c.lower FROM c ORDER BY c.pk, c.lower DESC",
            json!(["cid", "bob", "ann"]),
        ),
        (
            "SELECT VALUE c.name FROM c WHERE c.id = '0'",
            json!(["BOB"]),
        ),
        (
            "SELECT VALUE COUNT(1) FROM c WHERE c.lower > 'b'",
            json!([2]),
        ),
        (
            "SELECT c.lower, COUNT(1) AS n FROM c WHERE c.id = '2' GROUP BY c.lower",
            json!([{ "lower": "cid", "n": 1 }]),
        ),
    ] {
        assert_eq!(json!(rows(&account, sql).await), expected, "{sql}");
    }
    let whole = rows(&account, "SELECT * FROM c WHERE c.id = '0'").await;
    assert_eq!(
        (&whole[0]["name"], &whole[0]["lower"]),
        (&json!("Bob"), &Value::Null)
    );
}

#[tokio::test]
async fn a_sort_by_a_computed_property_needs_its_index() {
    let account = computed(false).await;
    let sorted = account
        .query(IN_P, "SELECT * FROM c ORDER BY c.lower", json!([]))
        .await;
    assert_eq!(sorted.status, 400, "{}", sorted.body);
    let without_composite = "SELECT * FROM c ORDER BY c.pk, c.lower";
    let sorted = account.query(IN_P, without_composite, json!([])).await;
    assert_eq!(sorted.status, 400, "{}", sorted.body);
    assert_eq!(
        rows(&account, "SELECT VALUE c.id FROM c WHERE c.lower = 'ann'").await,
        ["1"]
    );
}

#[tokio::test]
async fn an_invalid_computed_property_is_refused() {
    let account = with(json!({})).await;
    for (name, query) in [
        ("_ts", "SELECT VALUE c.a FROM c"),
        ("", "SELECT VALUE c.a FROM c"),
        ("x", "SELECT c.a FROM c"),
        ("x", "SELECT VALUE c.a FROM c WHERE c.a > 1"),
        ("x", "SELECT VALUE c.a FROM c ORDER BY c.a"),
        ("x", "SELECT VALUE"),
    ] {
        let body = json!({ "id": "d", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
            "computedProperties": [{ "name": name, "query": query }] });
        let request = Request::new_container().body(&body);
        assert_eq!(account.send(&request).await.status, 400, "{name}: {query}");
    }
}

async fn feed(account: &Account, etag: &str) -> Answer {
    let mut headers = vec![
        ("a-im", "Full-Fidelity Feed"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    if !etag.is_empty() {
        headers.push(("if-none-match", etag));
    }
    let request = Request::docs(Method::GET).headers(&headers);
    account.send(&request).await
}

#[tokio::test]
async fn the_feed_of_all_versions_has_every_write_and_delete() {
    let account = with(json!({ "changeFeedPolicy": { "retentionDuration": 10 } })).await;
    account
        .create(&json!({ "id": "before", "pk": "p" }))
        .await
        .is(201);
    assert_eq!(
        feed(&account, "").await.status,
        400,
        "it starts now or at a continuation"
    );
    let start = feed(&account, "*").await;
    assert_eq!(start.status, 304);
    for n in 1..4 {
        let operations = json!([{ "operationType": "Upsert", "resourceBody": { "id": "1", "pk": "p", "n": n } }]);
        account.batch(&operations).await.is(200);
    }
    account.item(Method::DELETE, "1", &[], None).await.is(204);
    let page = feed(&account, start.header("etag")).await;
    let changes = page.documents();
    let list = |name: &str| -> Vec<Value> {
        changes
            .iter()
            .map(|change| change["metadata"][name].clone())
            .collect()
    };
    assert_eq!(
        json!(list("operationType")),
        json!(["create", "replace", "replace", "delete"])
    );
    let numbers: Vec<&Value> = changes
        .iter()
        .map(|change| &change["current"]["n"])
        .collect();
    assert_eq!(json!(numbers), json!([1, 2, 3, null]));
    assert_eq!(
        (&list("id")[3], &list("partitionKey")[3]),
        (&json!("1"), &json!({ "pk": "p" }))
    );
    let lsns: Vec<i64> = list("lsn").iter().filter_map(Value::as_i64).collect();
    assert_eq!(changes[3]["metadata"]["previousImageLSN"], lsns[2]);
    assert_eq!(feed(&account, page.header("etag")).await.status, 304);
}

#[tokio::test]
async fn a_container_without_a_policy_keeps_no_versions() {
    assert_eq!(feed(&with(json!({})).await, "*").await.status, 400);
}

#[tokio::test]
async fn all_items_of_a_partition_key_are_deleted() {
    let account = with(json!({})).await;
    for (id, pk) in [("1", "p"), ("2", "p"), ("3", "q")] {
        let key = format!("[\"{pk}\"]");
        let headers = [("x-ms-documentdb-partitionkey", &*key)];
        account
            .post(&headers, &json!({ "id": id, "pk": pk }))
            .await
            .is(201);
    }
    delete_partition(&account).await;
    let everywhere = [("x-ms-documentdb-query-enablecrosspartition", "True")];
    let left = account
        .query(&everywhere, "SELECT VALUE c.id FROM c", json!([]))
        .await;
    assert_eq!(left.documents(), ["3"]);
}

#[tokio::test]
async fn the_feed_of_all_versions_has_every_deletion_by_partition_key() {
    let account = with(json!({ "changeFeedPolicy": { "retentionDuration": 10 } })).await;
    let start = feed(&account, "*").await;
    for batch in 0..5 {
        let ids = (0..100).map(|n| format!("{batch}-{n}"));
        let operations: Vec<Value> = ids
            .map(|id| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": "p" } }))
            .collect();
        account.batch(&json!(operations)).await.is(200);
    }
    delete_partition(&account).await;
    let (mut deleted, mut etag) = (0, start.header("etag").to_owned());
    loop {
        let page = feed(&account, &etag).await;
        if page.status == 304 {
            break;
        }
        let rows = page.documents();
        let deletions = rows.iter().map(|row| &row["metadata"]["operationType"]);
        deleted += deletions.filter(|kind| *kind == "delete").count();
        etag = page.header("etag").to_owned();
    }
    assert_eq!(deleted, 500);
}

#[tokio::test]
async fn properties_keep_the_order_in_which_they_were_written() {
    let account = with(json!({})).await;
    let document = json!({ "zebra": 1, "id": "1", "pk": "p", "b": { "y": 1, "x": 2 }, "a": 3 });
    account.create(&document).await.is(201);
    let patch = json!({ "operations": [{ "op": "remove", "path": "/zebra" }, { "op": "set", "path": "/new", "value": 1 }] });
    let patched = account.item(Method::PATCH, "1", &[], Some(&patch)).await;
    let names = |value: &Value| -> Vec<String> {
        let object = value.as_object().expect("an object");
        object
            .keys()
            .filter(|name| !name.starts_with('_'))
            .cloned()
            .collect()
    };
    assert_eq!(names(&patched.body), ["id", "pk", "b", "a", "new"]);
    assert_eq!(names(&patched.body["b"]), ["y", "x"]);
    let row = &rows(&account, "SELECT c.b, c.id, c.a FROM c").await[0];
    assert_eq!(names(row), ["b", "id", "a"]);
}

/// The service adds and removes vectors of a container, and changes none. Source:
/// azure-sdk-for-python `test_vector_policy.py`, `test_fail_replace_vector_indexing_policy`.
#[tokio::test]
async fn a_vector_can_be_added_but_not_changed() {
    let vector = |path: &str, dimensions: u32| json!({ "path": path, "dataType": "float32", "dimensions": dimensions, "distanceFunction": "euclidean" });
    let index = |path: &str, kind: &str| json!({ "path": path, "type": kind });
    let container = |vectors: Value, indexes: Value| {
        json!({
            "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
            "vectorEmbeddingPolicy": { "vectorEmbeddings": vectors },
            "indexingPolicy": { "includedPaths": [{ "path": "/*" }], "vectorIndexes": indexes },
        })
    };
    let first = (vector("/v", 256), index("/v", "flat"));
    let emulator = Emulator::start().await.expect("it starts");
    let account = Account::with(emulator, container(json!([first.0]), json!([first.1]))).await;
    let second = (vector("/w", 8), index("/w", "diskANN"));
    for (vectors, indexes, problem) in [
        (
            json!([]),
            json!([first.1]),
            "path::/v not matching in Embedding's path",
        ),
        (
            json!([first.0]),
            json!([index("/v", "quantizedFlat")]),
            "Paths in existing vector indexing policy cannot",
        ),
        (
            json!([vector("/v", 384)]),
            json!([first.1]),
            "Paths in existing embedding policy cannot be modified",
        ),
        (json!([first.0, second.0]), json!([first.1, second.1]), ""),
        (json!([second.0]), json!([second.1]), ""),
    ] {
        let body = container(vectors, indexes);
        let replaced = account
            .send(&Request::container(Method::PUT).body(&body))
            .await;
        let status = if problem.is_empty() { 200 } else { 400 };
        replaced.is(status);
        let message = replaced.body["message"].as_str().unwrap_or_default();
        assert!(message.contains(problem), "{message}");
    }
}
