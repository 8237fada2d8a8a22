//! Tests of offers and throughput budgets.

use std::time::Duration;

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

async fn send(
    account: &Account,
    method: Method,
    (kind, link, path): (&str, &str, &str),
    headers: Headers<'_>,
    body: Option<&Value>,
) -> Answer {
    account
        .send(
            &Request::new(method, (kind, link), path)
                .headers(headers)
                .body(body),
        )
        .await
}

/// Finds the offer of `db/c` like clients do.
async fn offer(account: &Account) -> Value {
    let place = ("colls", "dbs/db/colls/c", "dbs/db/colls/c");
    let container = send(account, Method::GET, place, &[], None).await;
    let body = json!({
        "query": "SELECT * FROM root r WHERE r.resource=@link",
        "parameters": [{ "name": "@link", "value": container.body["_self"] }],
    });
    let headers = [("x-ms-documentdb-isquery", "True")];
    let found = send(
        account,
        Method::POST,
        ("offers", "", "offers"),
        &headers,
        Some(&body),
    )
    .await;
    assert_eq!(found.status, 200, "{}", found.body);
    let offer = found.body["Offers"][0].clone();
    assert_eq!(offer["offerResourceId"], container.body["_rid"]);
    offer
}

/// Replaces the throughput of `db/c`.
async fn replace(account: &Account, content: Value) -> Answer {
    let mut offer = offer(account).await;
    offer["content"] = content;
    let rid = offer["_rid"].as_str().unwrap_or_default().to_owned();
    let path = format!("offers/{rid}");
    let place = ("offers", &*rid.to_lowercase(), &*path);
    send(account, Method::PUT, place, &[], Some(&offer)).await
}

#[tokio::test]
async fn an_offer_can_be_read_and_replaced() {
    let account = Account::start().await;
    let found = offer(&account).await;
    assert_eq!(found["content"]["offerThroughput"], 400);
    let replaced = replace(&account, json!({ "offerThroughput": 1200 })).await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    assert_eq!(offer(&account).await["content"]["offerThroughput"], 1200);
    for wrong in [
        json!({ "offerThroughput": 450 }),
        json!({ "offerThroughput": 300 }),
        json!({ "offerThroughput": "many" }),
        json!({ "offerAutopilotSettings": { "maxThroughput": 1500 } }),
        json!(null),
    ] {
        assert_eq!(
            replace(&account, wrong.clone()).await.status,
            400,
            "{wrong}"
        );
    }
    let scaling = json!({ "offerAutopilotSettings": { "maxThroughput": 4000 } });
    assert_eq!(replace(&account, scaling.clone()).await.status, 200);
    let content = &offer(&account).await["content"];
    assert_eq!(content, &scaling);
    let missing = ("offers", "zzzz", "offers/zzzz");
    send(&account, Method::GET, missing, &[], None)
        .await
        .is(404);
}

#[tokio::test]
async fn the_throughput_of_a_create_request_is_stored_or_rejected() {
    let account = Account::start().await;
    let settings = "x-ms-cosmos-offer-autopilot-settings";
    for (at, (headers, status)) in [
        (vec![("x-ms-offer-throughput", "500")], 201),
        (vec![(settings, r#"{"maxThroughput":1000}"#)], 201),
        (vec![("x-ms-offer-throughput", "350")], 400),
        (vec![("x-ms-offer-throughput", "x")], 400),
        (vec![(settings, "{")], 400),
        (
            vec![
                ("x-ms-offer-throughput", "500"),
                (settings, r#"{"maxThroughput":1000}"#),
            ],
            400,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let body =
            json!({ "id": format!("c{at}"), "partitionKey": { "paths": ["/pk"], "kind": "Hash" } });
        let place = ("colls", "dbs/db", "dbs/db/colls");
        let created = send(&account, Method::POST, place, &headers, Some(&body)).await;
        assert_eq!(created.status, status, "{headers:?}: {}", created.body);
    }
    let all = send(&account, Method::GET, ("offers", "", "offers"), &[], None).await;
    assert_eq!(all.body["_count"], 3);
    let place = ("colls", "dbs/db/colls/c1", "dbs/db/colls/c1");
    send(&account, Method::DELETE, place, &[], None)
        .await
        .is(204);
    let all = send(&account, Method::GET, ("offers", "", "offers"), &[], None).await;
    assert_eq!(all.body["_count"], 2);
}

#[tokio::test]
async fn a_container_has_a_physical_partition_per_10_000_request_units() {
    let account = Account::start().await;
    let scaling = "x-ms-cosmos-offer-autopilot-settings";
    for (at, (header, count)) in [
        (("x-ms-offer-throughput", "10000"), 1),
        (("x-ms-offer-throughput", "11000"), 2),
        ((scaling, r#"{"maxThroughput":30000}"#), 3),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("c{at}");
        let body = json!({ "id": id, "partitionKey": { "paths": ["/pk"], "kind": "Hash" } });
        let place = ("colls", "dbs/db", "dbs/db/colls");
        send(&account, Method::POST, place, &[header], Some(&body))
            .await
            .is(201);
        let (link, path) = (
            format!("dbs/db/colls/{id}"),
            format!("dbs/db/colls/{id}/pkranges"),
        );
        let ranges = send(&account, Method::GET, ("pkranges", &link, &path), &[], None).await;
        assert_eq!(ranges.body["_count"], count, "{header:?}");
    }
}

/// Writes documents of this size until the budget is exhausted.
async fn exhaust(
    account: &Account,
    partition: &str,
    (bytes, most): (usize, u32),
) -> Option<Answer> {
    let key = format!("[\"{partition}\"]");
    let headers = [("x-ms-documentdb-partitionkey", &*key)];
    for n in 0..most {
        let text = "x".repeat(bytes);
        let body = json!({ "id": n.to_string(), "pk": partition, "text": text });
        let answer = account.post(&headers, &body).await;
        if answer.status != 201 {
            return Some(answer);
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_budget_returns_the_delay_of_the_service() {
    let account = Account::simulated(Emulator::builder().throughput(100), json!({})).await;
    let refused = exhaust(&account, "p", (20_000, 200))
        .await
        .expect("it is used up");
    let substatus = refused.header("x-ms-substatus");
    assert_eq!(
        (refused.status, substatus),
        (429, "3200"),
        "{}",
        refused.body
    );
    assert!(
        refused.charge().abs() < f64::EPSILON,
        "{}",
        refused.charge()
    );
    let wait: u64 = refused
        .header("x-ms-retry-after-ms")
        .parse()
        .expect("a time");
    assert!((1..=1000).contains(&wait), "{wait}");
    for (milliseconds, status) in [(wait - 2, 429), (2, 200)] {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        let read = account.item(Method::GET, "0", &[], None).await;
        assert_eq!(read.status, status);
    }
}

#[tokio::test]
async fn a_physical_partition_has_an_equal_share() {
    let emulator = Emulator::builder().throughput(200).physical_partitions(2);
    let emulator = emulator.start().await.expect("it starts");
    let account = Account::with(emulator, json!({})).await;
    // 22E3… and 3A… are above and below the middle, 2000….
    exhaust(&account, "redmond", (20_000, 200))
        .await
        .expect("it is used up");
    let headers = [("x-ms-documentdb-partitionkey", r#"["\u00e9"]"#)];
    let elsewhere = account
        .post(&headers, &json!({ "id": "1", "pk": "é" }))
        .await;
    assert_eq!(elsewhere.status, 201, "{}", elsewhere.body);
}

#[tokio::test]
async fn an_offer_is_not_enforced_before_it_is_replaced() {
    let account = Account::start().await;
    assert!(exhaust(&account, "p", (1_900_000, 3)).await.is_none());
    let replaced = replace(&account, json!({ "offerThroughput": 400 })).await;
    assert_eq!(replaced.status, 200);
    let refused = exhaust(&account, "q", (1_900_000, 10))
        .await
        .expect("it is used up");
    assert_eq!(refused.status, 429);
}

#[tokio::test]
async fn a_bulk_rejects_only_the_operations_over_the_budget() {
    let emulator = ok!(Emulator::builder().throughput(100).start());
    let account = Account::with(emulator, json!({})).await;
    let text = "x".repeat(15_000);
    let operations: Vec<Value> = (0..100)
        .map(|n| {
            json!({ "operationType": "Create", "partitionKey": "[\"p\"]",
                "resourceBody": { "id": n.to_string(), "pk": "p", "text": text } })
        })
        .collect();
    let headers = [
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "False"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let answer = account.post(&headers, &json!(operations)).await;
    assert_eq!(answer.status, 207);
    let statuses = answer.statuses();
    let done = statuses.iter().filter(|status| **status == 201).count();
    assert!(done > 0 && done < 100, "{statuses:?}");
    let results = answer.body.as_array().cloned().unwrap_or_default();
    for refused in results.iter().filter(|result| result["statusCode"] != 201) {
        assert_eq!(
            (&refused["statusCode"], &refused["subStatusCode"]),
            (&json!(429), &json!(3200))
        );
        assert!(
            refused["retryAfterMilliseconds"].as_u64() > Some(0),
            "{refused}"
        );
    }
}

/// Source: concepts-limits, "Request limits": per five minutes, reads of databases and containers
/// apart from other operations.
#[tokio::test(start_paused = true)]
async fn requests_for_metadata_have_a_budget_of_five_minutes() {
    let account = Account::simulated(Emulator::builder().metadata_budget(4), json!({})).await;
    let read = async || account.send(&Request::container(Method::GET)).await;
    let list = async || account.send(&Request::ranges()).await;
    // The account has created a database and a container.
    for (reads, lists) in [(4, 2), (4, 4)] {
        for _ in 0..reads {
            read().await.is(200);
        }
        for _ in 0..lists {
            list().await.is(200);
        }
        for refused in [read().await, list().await] {
            refused.has(429, "x-ms-substatus", "3210");
            assert_eq!(refused.header("x-ms-retry-after-ms"), "1000");
        }
        let document = json!({ "id": lists.to_string(), "pk": "p" });
        account.create(&document).await.is(201);
        tokio::time::sleep(Duration::from_secs(300)).await;
    }
}

/// Spends the budget of a container by reads with these headers. Returns their request units, and
/// the refusal.
async fn read_until_refused(account: &Account, headers: Headers<'_>) -> (f64, Answer) {
    let mut spent = 0.0;
    loop {
        let read = account.item(Method::GET, "0", headers, None).await;
        if read.status != 200 {
            return (spent, read);
        }
        spent += read.charge();
    }
}

const LOW: Headers<'_> = &[("x-ms-cosmos-priority-level", "Low")];

async fn account_of(settings: cdb_emulator::Settings) -> Account {
    let account = Account::simulated(settings.throughput(100), json!({})).await;
    account
        .create(&json!({ "id": "0", "pk": "p" }))
        .await
        .is(201);
    // The whole budget of a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    account
}

/// Source: "Priority-based execution", Azure Cosmos DB: requests of low priority are throttled first,
/// and each priority can use all of the throughput in absence of the other.
#[tokio::test(start_paused = true)]
async fn requests_of_low_priority_are_throttled_first_and_use_the_whole_throughput_alone() {
    let account = account_of(Emulator::builder().priority_based_execution(true)).await;
    let (spent, refused) = read_until_refused(&account, LOW).await;
    assert!((75.0..85.0).contains(&spent), "{spent}");
    refused.has(429, "x-ms-substatus", "3200");
    let (left, _) = read_until_refused(&account, &[]).await;
    assert!((15.0..25.0).contains(&left), "{left}");

    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut alone = 0.0;
    for _ in 0..50 {
        alone += read_until_refused(&account, LOW).await.0;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!((550.0..600.0).contains(&alone), "{alone} RU in 5 s");
}

#[tokio::test(start_paused = true)]
async fn an_account_without_priorities_ignores_them() {
    let account = account_of(Emulator::builder()).await;
    let (spent, _) = read_until_refused(&account, LOW).await;
    assert!((100.0..102.0).contains(&spent), "{spent}");
}

/// Source: "Throughput buckets in Azure Cosmos DB" and its FAQ.
#[tokio::test(start_paused = true)]
async fn a_bucket_uses_its_percentage_and_leaves_the_rest_to_others() {
    let account = account_of(Emulator::builder().throughput_buckets([(2, 30)])).await;
    let of = |bucket| [("x-ms-cosmos-throughput-bucket", bucket)];
    let (spent, refused) = read_until_refused(&account, &of("2")).await;
    assert!((30.0..32.0).contains(&spent), "{spent}");
    refused.has(429, "x-ms-substatus", "3212");
    let wait: u64 = refused.header("x-ms-retry-after-ms").parse().expect("ms");
    assert!((1..100).contains(&wait), "{wait}");
    let (left, refused) = read_until_refused(&account, &of("5")).await;
    assert!((68.0..71.0).contains(&left), "{left}");
    assert_eq!(refused.header("x-ms-substatus"), "3200");
}

#[tokio::test]
async fn a_bucket_that_cannot_exist_is_refused() {
    let account = Account::start().await;
    for (bucket, status) in [
        ("0", 429),
        ("6", 429),
        ("-1", 429),
        ("300", 429),
        ("x", 400),
    ] {
        let headers = [("x-ms-cosmos-throughput-bucket", bucket)];
        let read = account.item(Method::GET, "0", &headers, None).await;
        assert_eq!(read.status, status, "{bucket}");
        if status == 429 {
            assert_eq!(read.header("x-ms-substatus"), "3212");
        }
    }
    for buckets in [(0, 10), (6, 10), (1, 0), (1, 101)] {
        let refused = Emulator::builder().throughput_buckets([buckets]).start();
        let refused = refused.await.expect_err("it is invalid").to_string();
        assert!(refused.contains("ids are 1 to 5"), "{refused}");
    }
}
