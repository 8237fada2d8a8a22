//! Tests of physical partitions: splits, sessions and cursors.

use std::collections::BTreeSet;

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

const FEED: (&str, &str) = ("a-im", "Incremental Feed");

async fn ranges(account: &Account, headers: Headers<'_>) -> Answer {
    account.send(&Request::ranges().headers(headers)).await
}

fn ids(answer: &Answer) -> Vec<&str> {
    let ranges = answer.body["PartitionKeyRanges"].as_array();
    let ids = ranges.into_iter().flatten().map(|range| &range["id"]);
    ids.filter_map(Value::as_str).collect()
}

async fn feed(account: &Account, range: &str, headers: Headers<'_>) -> Answer {
    let mut all = vec![FEED, ("x-ms-documentdb-partitionkeyrangeid", range)];
    all.extend(headers);
    account
        .send(&Request::docs(Method::GET).headers(&all))
        .await
}

fn names(answer: &Answer) -> BTreeSet<String> {
    let documents = answer.documents();
    let ids = documents
        .iter()
        .filter_map(|document| document["id"].as_str());
    ids.map(str::to_owned).collect()
}

/// Creates documents `0` to `n - 1`, each with its own partition key.
async fn fill(account: &Account, numbers: std::ops::Range<u32>) {
    for n in numbers {
        let key = format!("[\"{n}\"]");
        let headers = [("x-ms-documentdb-partitionkey", &*key)];
        let body = json!({ "id": n.to_string(), "pk": n.to_string() });
        let created = account.post(&headers, &body).await;
        assert_eq!(created.status, 201, "{}", created.body);
    }
}

fn set(numbers: std::ops::Range<u32>) -> BTreeSet<String> {
    numbers.map(|n| n.to_string()).collect()
}

#[tokio::test]
async fn the_feed_of_ranges_returns_the_children_of_a_split() {
    let account = Account::with(
        Emulator::builder()
            .physical_partitions(2)
            .start()
            .await
            .expect("it starts"),
        json!({}),
    )
    .await;
    let before = ranges(&account, &[FEED]).await;
    assert_eq!(ids(&before), ["0", "1"]);
    let etag = before.header("etag").to_owned();
    let known = ranges(&account, &[FEED, ("if-none-match", &etag)]).await;
    assert_eq!((known.status, known.header("etag")), (304, &*etag));

    let children = account.emulator.split("db", "c", "1").expect("it splits");
    assert_eq!(children, ["2", "3"]);
    assert_eq!(ids(&ranges(&account, &[]).await), ["0", "2", "3"]);
    let news = ranges(&account, &[FEED, ("if-none-match", &etag)]).await;
    assert_eq!(ids(&news), ["2", "3"]);
    let listed = &news.body["PartitionKeyRanges"];
    assert_eq!(listed[0]["parents"], json!(["1"]));
    assert_eq!(
        listed[0]["minInclusive"],
        before.body["PartitionKeyRanges"][1]["minInclusive"]
    );
    assert_eq!(listed[0]["maxExclusive"], listed[1]["minInclusive"]);
    assert_eq!(listed[1]["maxExclusive"], "FF");
    let etag = news.header("etag").to_owned();
    ranges(&account, &[FEED, ("if-none-match", &etag)])
        .await
        .is(304);
    let nonsense = ranges(&account, &[FEED, ("if-none-match", "\"x\"")]).await;
    assert_eq!(nonsense.status, 400);

    let again = account
        .emulator
        .split("db", "c", "1")
        .expect_err("it is gone");
    assert!(again.to_string().contains('1'), "{again}");
    assert!(account.emulator.split("db", "none", "0").is_err());
}

#[tokio::test]
async fn a_request_to_a_split_range_gets_gone() {
    let account = Account::start().await;
    fill(&account, 0..8).await;
    let [low, high] = account.emulator.split("db", "c", "0").expect("it splits");
    let range = ("x-ms-documentdb-partitionkeyrangeid", "0");
    let query = account.query(&[range], "SELECT * FROM c", json!([])).await;
    let bulk = [
        range,
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "False"),
    ];
    let operation = json!([{ "operationType": "Read", "id": "0", "partitionKey": "[\"0\"]" }]);
    let bulk = account.post(&bulk, &operation).await;
    for gone in [query, bulk, feed(&account, "0", &[]).await] {
        let substatus = gone.header("x-ms-substatus");
        assert_eq!((gone.status, substatus), (410, "1002"), "{}", gone.body);
    }
    let mut found = BTreeSet::new();
    for child in [&low, &high] {
        let range = ("x-ms-documentdb-partitionkeyrangeid", &**child);
        let rows = account.query(&[range], "SELECT * FROM c", json!([])).await;
        assert!(
            rows.header("x-ms-session-token")
                .starts_with(&format!("{child}:"))
        );
        let names = names(&rows);
        assert!(!names.is_empty() && found.is_disjoint(&names));
        found.extend(names);
    }
    assert_eq!(found, set(0..8));
}

#[tokio::test]
async fn children_continue_from_the_cursor_of_their_parent() {
    let account = Account::start().await;
    fill(&account, 0..8).await;
    let read = feed(&account, "0", &[]).await;
    assert_eq!(names(&read), set(0..8));
    let etag = read.header("etag").to_owned();
    let children = account.emulator.split("db", "c", "0").expect("it splits");
    fill(&account, 8..16).await;
    let mut found = BTreeSet::new();
    for child in &children {
        let news = feed(&account, child, &[("if-none-match", &etag)]).await;
        found.extend(names(&news));
        let cursor = news.header("etag").to_owned();
        let end = feed(&account, child, &[("if-none-match", &cursor)]).await;
        assert_eq!((end.status, end.header("etag")), (304, &*cursor));
    }
    assert_eq!(found, set(8..16));
}

async fn page(account: &Account, range: &str, sql: &str, token: &str) -> Answer {
    let mut headers = vec![
        ("x-ms-documentdb-partitionkeyrangeid", range),
        ("x-ms-max-item-count", "5"),
    ];
    if !token.is_empty() {
        headers.push(("x-ms-continuation", token));
    }
    account.query(&headers, sql, json!([])).await
}

#[tokio::test]
async fn children_continue_a_query_of_their_parent() {
    let account = Account::start().await;
    fill(&account, 0..12).await;
    let sql = "SELECT * FROM c";
    let first = page(&account, "0", sql, "").await;
    let children = account.emulator.split("db", "c", "0").expect("it splits");
    let mut found: Vec<String> = names(&first).into_iter().collect();
    for child in &children {
        let mut token = first.header("x-ms-continuation").to_owned();
        while !token.is_empty() {
            let next = page(&account, child, sql, &token).await;
            assert_eq!(next.status, 200, "{}", next.body);
            found.extend(names(&next));
            next.header("x-ms-continuation").clone_into(&mut token);
        }
    }
    assert_eq!((found.len(), found.into_iter().collect()), (12, set(0..12)));
}

#[tokio::test]
async fn a_token_is_valid_for_its_query_and_partition_only() {
    let account = Account::with(
        Emulator::builder()
            .physical_partitions(2)
            .start()
            .await
            .expect("it starts"),
        json!({}),
    )
    .await;
    fill(&account, 0..24).await;
    let first = page(&account, "0", "SELECT * FROM c", "").await;
    let token = first.header("x-ms-continuation").to_owned();
    assert!(!token.is_empty());
    let sorted = page(&account, "0", "SELECT * FROM c ORDER BY c.id", "").await;
    let sorted_token = sorted.header("x-ms-continuation").to_owned();
    let folded = page(&account, "0", "SELECT DISTINCT c.id FROM c", "").await;
    let folded_token = folded.header("x-ms-continuation").to_owned();
    let [low, _] = account.emulator.split("db", "c", "0").expect("it splits");
    for (range, sql, token, status) in [
        (&*low, "SELECT * FROM c", &*token, 200),
        (&low, "SELECT c.id FROM c", &token, 400),
        ("1", "SELECT * FROM c", &token, 400),
        (&low, "SELECT * FROM c ORDER BY c.id", &sorted_token, 200),
        // The token does not name the partition of the deduplicated rows.
        (&low, "SELECT DISTINCT c.id FROM c", &folded_token, 400),
        ("1", "SELECT * FROM c", "bm9uc2Vuc2U=", 400),
        ("1", "SELECT * FROM c", "!", 400),
    ] {
        let answer = page(&account, range, sql, token).await;
        assert_eq!(answer.status, status, "{range} {sql}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_session_token_ahead_of_the_data_is_rejected() {
    let account = Account::start().await;
    let created = account.create(&json!({ "id": "a", "pk": "p" })).await;
    let token = created.header("x-ms-session-token").to_owned();
    assert!(token.starts_with("0:"), "{token}");
    account.emulator.split("db", "c", "0").expect("it splits");
    let with = async |token: &str| {
        let headers = [("x-ms-session-token", token)];
        account.item(Method::GET, "a", &headers, None).await
    };
    let read = with(&token).await;
    assert_eq!(read.status, 200);
    let range = read.header("x-ms-session-token").split(':').next();
    let child = range.unwrap_or_default().to_owned();
    assert!(child == "1" || child == "2", "{child}");

    for ahead in [
        "0:-1#999999",
        &format!("{child}:1#999999#0=3"),
        "7:4,0:999999",
    ] {
        let refused = with(ahead).await;
        let substatus = refused.header("x-ms-substatus");
        assert_eq!((refused.status, substatus), (404, "1002"), "{ahead}");
    }
    let elsewhere = if child == "1" {
        "2:-1#999999"
    } else {
        "1:-1#999999"
    };
    assert_eq!(with(elsewhere).await.status, 200);
    for malformed in ["nonsense", "0:", "0:1#x", "0:-1#1,:"] {
        assert_eq!(with(malformed).await.status, 400, "{malformed}");
    }
    for (level, status) in [
        ("Eventual", 200),
        ("Session", 404),
        ("Strong", 400),
        ("What", 400),
    ] {
        let headers = [
            ("x-ms-consistency-level", level),
            ("x-ms-session-token", "0:999999"),
        ];
        let answer = account.item(Method::GET, "a", &headers, None).await;
        assert_eq!(answer.status, status, "{level}");
    }
    let lost = account.create(&json!({ "id": "a", "pk": "p" })).await;
    assert_eq!(lost.status, 409);
    assert!(!lost.header("x-ms-session-token").is_empty());
}

#[tokio::test]
async fn a_feed_starts_now_or_at_a_time() {
    let account = Account::start().await;
    fill(&account, 0..3).await;
    let now = feed(&account, "0", &[("if-none-match", "*")]).await;
    assert_eq!(now.status, 304);
    let cursor = now.header("etag").to_owned();
    fill(&account, 3..5).await;
    let news = feed(&account, "0", &[("if-none-match", &cursor)]).await;
    assert_eq!(names(&news), set(3..5));
    let all = [("if-modified-since", "Thu, 01 Jan 2015 00:00:00 GMT")];
    assert_eq!(names(&feed(&account, "0", &all).await), set(0..5));
    let none = [("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT")];
    assert_eq!(feed(&account, "0", &none).await.status, 304);
    for wrong in [
        ("if-modified-since", "yesterday"),
        ("if-none-match", "\"x\""),
        ("if-none-match", "\"-4\""),
        ("x-ms-max-item-count", "0"),
        ("x-ms-max-item-count", "many"),
    ] {
        assert_eq!(feed(&account, "0", &[wrong]).await.status, 400, "{wrong:?}");
    }
    let page = feed(&account, "0", &[("x-ms-max-item-count", "2")]).await;
    assert_eq!(
        (page.documents().len(), page.header("x-ms-item-count")),
        (2, "2")
    );
    let lsn = page.documents()[1]["_lsn"].to_string();
    assert_eq!(page.header("etag"), format!("\"{lsn}\""));
    let partition = account
        .send(
            &Request::docs(Method::GET)
                .headers(&[FEED, ("x-ms-documentdb-partitionkey", "[\"4\"]")]),
        )
        .await;
    assert_eq!(names(&partition), set(4..5));
}

#[tokio::test]
async fn a_page_ends_at_four_megabytes() {
    let account = Account::start().await;
    let headers = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    for n in 0..5 {
        let body = json!({ "id": n.to_string(), "pk": "p", "text": "x".repeat(1_500_000) });
        account.post(&headers, &body).await.is(201);
    }
    let mut etag = String::new();
    let mut sizes = Vec::new();
    loop {
        let from = [("x-ms-max-item-count", "-1"), ("if-none-match", &*etag)];
        let page = feed(
            &account,
            "0",
            if etag.is_empty() { &from[..1] } else { &from },
        )
        .await;
        page.header("etag").clone_into(&mut etag);
        if page.status == 304 {
            break;
        }
        sizes.push(page.documents().len());
    }
    assert_eq!(sizes, [2, 2, 1]);
    for sql in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.id"] {
        let first = account.query(&headers, sql, json!([])).await;
        assert_eq!(first.documents().len(), 2, "{sql}");
        let token = first.header("x-ms-continuation").to_owned();
        let next = [headers[0], ("x-ms-continuation", &*token)];
        let second = account.query(&next, sql, json!([])).await;
        assert_eq!(second.documents().len(), 2, "{sql}");
        assert_ne!(second.header("x-ms-continuation"), "", "{sql}");
    }
}

#[tokio::test]
async fn a_merged_range_serves_each_part_of_its_parents() {
    let builder = Emulator::builder().physical_partitions(2);
    let account = Account::with(builder.start().await.expect("it starts"), json!({})).await;
    fill(&account, 0..8).await;
    let low = names(&feed(&account, "0", &[]).await);
    let middle = ranges(&account, &[]).await.body["PartitionKeyRanges"][1]["minInclusive"].clone();
    let middle = middle.as_str().expect("a boundary");
    let merged = account
        .emulator
        .merge("db", "c", ["0", "1"])
        .expect("it merges");
    let listed = ranges(&account, &[]).await;
    let listed = &listed.body["PartitionKeyRanges"];
    assert_eq!(
        (listed[0]["id"].as_str(), listed[1].is_null()),
        (Some(&*merged), true)
    );
    assert_eq!(listed[0]["parents"], json!(["0", "1"]));
    let gone = feed(&account, "0", &[]).await;
    assert_eq!((gone.status, gone.header("x-ms-substatus")), (410, "1002"));
    let bounds = [
        ("x-ms-start-epk", ""),
        ("x-ms-end-epk", middle),
        ("x-ms-read-key-type", "EffectivePartitionKeyRange"),
    ];
    assert_eq!(names(&feed(&account, &merged, &bounds).await), low);
    assert_eq!(names(&feed(&account, &merged, &[]).await), set(0..8));
    // A session continues.
    let session = [("x-ms-session-token", "0:-1#1")];
    feed(&account, &merged, &session).await.is(200);
    let refused = account
        .emulator
        .merge("db", "c", [&merged, "1"])
        .unwrap_err();
    assert!(refused.to_string().contains("cannot merge"), "{refused}");
}
