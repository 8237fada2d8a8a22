//! Tests of offers and throughput budgets.

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
        tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
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
    let emulator = Emulator::builder()
        .throughput(100)
        .start()
        .await
        .expect("it starts");
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
