//! Tests of queries (scopes, indexes, costs) and of the change feed.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Headers, Request};

const IN_P: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];
const EVERYWHERE: Headers<'_> = &[("x-ms-documentdb-query-enablecrosspartition", "True")];

async fn filled(count: usize) -> Account {
    let account = Account::start().await;
    for n in 0..count {
        let document =
            json!({ "id": n.to_string(), "pk": "p", "n": n, "even": n % 2 == 0, "tags": ["t", n] });
        account.create(&document).await.is(201);
    }
    account
}

#[tokio::test]
async fn the_gateway_rejects_queries_that_need_a_merge() {
    let account = filled(1).await;
    for sql in [
        "SELECT * FROM c ORDER BY c.n",
        "SELECT TOP 1 * FROM c",
        "SELECT DISTINCT c.n FROM c",
        "SELECT VALUE COUNT(1) FROM c",
    ] {
        let refused = account.query(EVERYWHERE, sql, json!([])).await;
        assert_eq!(
            (refused.status, refused.header("x-ms-substatus")),
            (400, "1004"),
            "{sql}"
        );
        let mut ranged = EVERYWHERE.to_vec();
        ranged.push(("x-ms-documentdb-partitionkeyrangeid", "0"));
        assert_eq!(
            account.query(&ranged, sql, json!([])).await.status,
            200,
            "{sql}"
        );
    }
    let disabled = account.query(&[], "SELECT * FROM c", json!([])).await;
    assert_eq!(disabled.status, 400);
}

#[tokio::test]
async fn a_sort_returns_documents_without_its_path_first() {
    let account = Account::start().await;
    for document in [
        json!({ "id": "b", "pk": "p", "n": 1 }),
        json!({ "id": "a", "pk": "p" }),
        json!({ "id": "null", "pk": "p", "n": null }),
    ] {
        account.create(&document).await.is(201);
    }
    for (order, expected) in [
        ("c.n", ["a", "null", "b"]),
        ("c.n DESC", ["b", "null", "a"]),
    ] {
        let sql = format!("SELECT VALUE c.id FROM c ORDER BY {order}");
        let answer = account.query(IN_P, &sql, json!([])).await;
        assert_eq!(answer.body["Documents"], json!(expected), "{order}");
    }
}

#[tokio::test]
async fn a_sort_requires_its_index() {
    let policy = json!({ "indexingPolicy": { "indexingMode": "consistent",
        "includedPaths": [{ "path": "/a/?" }], "excludedPaths": [{ "path": "/*" }],
        "compositeIndexes": [[{ "path": "/a" }, { "path": "/b", "order": "descending" }]] } });
    let account = Account::with(Emulator::start().await.expect("it starts"), policy).await;
    for (order, status) in [
        ("c.a", 200),
        ("c.b", 400),
        ("c.a, c.b DESC", 200),
        ("c.a DESC, c.b", 200),
        ("c.a, c.b", 400),
        ("c.b DESC, c.a", 400),
    ] {
        let sql = format!("SELECT * FROM c ORDER BY {order}");
        assert_eq!(
            account.query(IN_P, &sql, json!([])).await.status,
            status,
            "{order}"
        );
    }
}

#[tokio::test]
async fn a_poll_of_a_long_queue_loads_only_its_results() {
    let policy = json!({ "indexingPolicy": { "indexingMode": "consistent",
        "includedPaths": [{ "path": "/type/?" }, { "path": "/at/?" }], "excludedPaths": [{ "path": "/*" }],
        "compositeIndexes": [[{ "path": "/type" }, { "path": "/at" }]] } });
    let account = Account::with(Emulator::start().await.expect("it starts"), policy).await;
    let ranged = [EVERYWHERE[0], ("x-ms-documentdb-partitionkeyrangeid", "0")];
    let mut charges = Vec::new();
    for round in 0..5 {
        let operations: Vec<Value> = (0..100)
            .map(|n| {
                json!({ "operationType": "Create", "resourceBody":
                { "id": format!("{round}-{n}"), "pk": "p", "type": "q", "at": n } })
            })
            .collect();
        account.batch(&operations.into()).await.is(200);
        let sql = "SELECT TOP 5 * FROM c WHERE c.type = @t AND c.at <= @n ORDER BY c.type, c.at";
        let parameters = json!([{ "name": "@t", "value": "q" }, { "name": "@n", "value": 1000 }]);
        let answer = account.query(&ranged, sql, parameters).await;
        assert_eq!(answer.documents().len(), 5);
        charges.push(answer.charge());
    }
    assert!(charges[4] < charges[0] * 1.2, "{charges:?}");
}

#[tokio::test]
async fn ranges_partition_the_documents_and_unknown_ranges_are_gone() {
    let emulator = ok!(Emulator::builder().physical_partitions(4).start());
    let account = Account::with(emulator, json!({})).await;
    for n in 0..40 {
        let key = format!("[\"{n}\"]");
        let document = json!({ "id": "x", "pk": n.to_string() });
        account
            .post(&[("x-ms-documentdb-partitionkey", &key)], &document)
            .await;
    }
    let ranges = account.send(&Request::ranges()).await;
    let ids: Vec<String> = ranges.body["PartitionKeyRanges"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|range| range["id"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(ids.len(), 4);
    let mut total = 0;
    for id in &ids {
        let headers = [EVERYWHERE[0], ("x-ms-documentdb-partitionkeyrangeid", id)];
        let found = account
            .query(&headers, "SELECT VALUE c.pk FROM c", json!([]))
            .await
            .documents();
        assert!(!found.is_empty() && found.len() < 40);
        total += found.len();
    }
    assert_eq!(total, 40);
    let headers = [EVERYWHERE[0], ("x-ms-documentdb-partitionkeyrangeid", "9")];
    let gone = account.query(&headers, "SELECT * FROM c", json!([])).await;
    assert_eq!((gone.status, gone.header("x-ms-substatus")), (410, "1002"));
}

#[tokio::test]
async fn the_change_feed_resumes_at_its_cursor() {
    let account = filled(7).await;
    let mut etag = String::new();
    let mut seen = Vec::new();
    loop {
        let mut headers = vec![
            ("a-im", "Incremental Feed"),
            ("x-ms-documentdb-partitionkeyrangeid", "0"),
            ("x-ms-max-item-count", "3"),
        ];
        if !etag.is_empty() {
            headers.push(("if-none-match", &etag));
        }
        let path = "dbs/db/colls/c/docs";
        let page = account
            .send(&Request::new(Method::GET, ("docs", "dbs/db/colls/c"), path).headers(&headers))
            .await;
        etag = page.header("etag").to_owned();
        if page.status == 304 {
            break;
        }
        seen.extend(
            page.documents()
                .into_iter()
                .map(|document| document["n"].clone()),
        );
        if seen.len() == 3 {
            // A changed document is returned again, in its newest version.
            account
                .item(
                    Method::PUT,
                    "0",
                    &[],
                    Some(&json!({ "id": "0", "pk": "p", "n": 100 })),
                )
                .await;
        }
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 100]);
}
