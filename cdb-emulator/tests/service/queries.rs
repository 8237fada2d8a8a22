//! Tests of queries (scopes, errors, pages, costs) and of the change feed.

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
        assert_eq!(account.create(&document).await.status, 201);
    }
    account
}

async fn rows(account: &Account, sql: &str) -> Vec<Value> {
    let answer = account.query(IN_P, sql, json!([])).await;
    assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
    answer.documents()
}

#[tokio::test]
async fn common_queries_return_their_results() {
    let account = filled(6).await;
    for (sql, expected) in [
        (
            "SELECT VALUE c.n FROM c WHERE c.n > 3 ORDER BY c.n DESC",
            json!([5, 4]),
        ),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.even", json!([3])),
        ("SELECT VALUE SUM(c.n) FROM c", json!([15])),
        (
            "SELECT TOP 1 c.n AS number, c[\"even\"] FROM c ORDER BY c.n",
            json!([{ "number": 0, "even": true }]),
        ),
        (
            "SELECT VALUE c.n FROM c WHERE c.n IN (1, 9) OR c.n BETWEEN 4 AND 4",
            json!([1, 4]),
        ),
        (
            "SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(c.tags, 2)",
            json!([2]),
        ),
        (
            "SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 3",
            json!(["t", 3]),
        ),
        (
            "SELECT VALUE c.n FROM c WHERE EXISTS (SELECT VALUE t FROM t IN c.tags WHERE t = 5)",
            json!([5]),
        ),
        (
            "SELECT DISTINCT VALUE c.even FROM c ORDER BY c.n OFFSET 0 LIMIT 1",
            json!([true]),
        ),
        (
            "SELECT c.even, COUNT(1) AS many FROM c GROUP BY c.even",
            json!([
                { "even": true, "many": 3 }, { "even": false, "many": 3 },
            ]),
        ),
        (
            "SELECT VALUE c.n ?? 'none' FROM c WHERE c.id LIKE '_' AND c.n = 0",
            json!([0]),
        ),
        // Undefined is neither equal nor unequal to other values.
        ("SELECT VALUE c.n FROM c WHERE c.missing != 1", json!([])),
        (
            "SELECT VALUE c.n FROM c WHERE NOT IS_DEFINED(c.missing) AND c.n = 1",
            json!([1]),
        ),
        // A comparison across types is undefined.
        ("SELECT VALUE c.n FROM c WHERE c.n < 'a'", json!([])),
    ] {
        assert_eq!(Value::from(rows(&account, sql).await), expected, "{sql}");
    }
}

#[tokio::test]
async fn a_query_error_has_its_location() {
    let account = filled(0).await;
    let answer = account.query(IN_P, "SELECT * FORM c", json!([])).await;
    assert_eq!(answer.status, 400);
    let message = answer.body["message"].as_str().expect("a message");
    assert!(
        message.contains("incorrect syntax near 'FORM'") && message.contains(r#""start":9"#),
        "{message}"
    );
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
async fn pages_return_every_row_once() {
    let account = filled(23).await;
    for sql in [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
        "SELECT TOP 17 VALUE c.n FROM c",
    ] {
        let mut seen = Vec::new();
        let mut continuation = String::new();
        loop {
            let mut headers = IN_P.to_vec();
            headers.push(("x-ms-max-item-count", "5"));
            if !continuation.is_empty() {
                headers.push(("x-ms-continuation", &continuation));
            }
            let answer = account.query(&headers, sql, json!([])).await;
            assert!(answer.documents().len() <= 5);
            seen.extend(answer.documents().iter().filter_map(Value::as_u64));
            continuation = answer.header("x-ms-continuation").to_owned();
            if continuation.is_empty() {
                break;
            }
        }
        let expected = if sql.contains("TOP") { 17 } else { 23 };
        assert_eq!(seen.len(), expected, "{sql}");
        if sql.contains("DESC") {
            assert!(seen.is_sorted_by(|a, b| a > b));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), expected, "{sql}");
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
        assert_eq!(account.batch(&operations.into()).await.status, 200);
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
    let emulator = Emulator::builder()
        .physical_partitions(4)
        .start()
        .await
        .expect("it starts");
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
