//! Tests of faults and of the request log.

use std::time::{Duration, Instant};

use cdb_emulator::{Effect, Emulator, Fault, OperationKind, Settings};
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, http_client};

#[tokio::test]
async fn an_injected_status_prevents_the_execution() {
    let account = Account::start().await;
    account.emulator.inject(Fault::once(Effect::Status {
        status: 429,
        substatus: 3200,
        retry_after_ms: Some(40),
    }));
    let refused = account.create(&json!({ "id": "a", "pk": "p" })).await;
    refused.has(429, "x-ms-retry-after-ms", "40");
    account
        .create(&json!({ "id": "a", "pk": "p" }))
        .await
        .is(201);
}

#[tokio::test]
async fn a_request_with_a_lost_response_was_executed() {
    let account = Account::start().await;
    account
        .create(&json!({ "id": "a", "pk": "p", "n": 0 }))
        .await;
    for (effect, found) in [(Effect::DropRequest, 0), (Effect::DropAnswer, 1)] {
        account
            .emulator
            .inject(Fault::once(effect).on(OperationKind::Patch));
        let increment = json!({ "operations": [{ "op": "incr", "path": "/n", "value": 1 }] });
        let answer = account
            .try_item(Method::PATCH, "a", &[], Some(&increment))
            .await;
        assert!(answer.is_none(), "the connection breaks: {answer:?}");
        let there = account.item(Method::GET, "a", &[], None).await;
        assert_eq!(there.body["n"], found);
    }
}

#[tokio::test]
async fn a_request_with_a_status_after_the_effect_was_executed() {
    let account = Account::start().await;
    account
        .emulator
        .inject(Fault::once(Effect::StatusAfterEffect { status: 408 }));
    let created = account.create(&json!({ "id": "a", "pk": "p" })).await;
    assert_eq!(created.status, 408);
    let there = account.item(Method::GET, "a", &[], None).await;
    assert_eq!(there.status, 200);
}

#[tokio::test(start_paused = true)]
async fn rights_are_missing_for_a_simulated_while_and_then_return() {
    let account = Account::simulated(Emulator::builder(), json!({})).await;
    account.create(&json!({ "id": "a", "pk": "p" })).await;
    for (status, substatus, shown) in [(403, 5302, "5302"), (403, 0, ""), (401, 0, "")] {
        let missing = Fault::always(Effect::error(status, substatus)).on_every_kind();
        account
            .emulator
            .inject(missing.lasting(Duration::from_secs(60)));
        let database = account.database().await;
        assert_eq!(database.status, status, "metadata is refused too");
        for (seconds, expected, shown) in [(59, status, shown), (1, 200, "")] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let read = account.item(Method::GET, "a", &[], None).await;
            assert_eq!(read.status, expected);
            assert_eq!(read.header("x-ms-substatus"), shown);
        }
    }
}

/// Returns how many requests a fault has affected.
async fn struck(account: &Account, fault: usize) -> u64 {
    let url = format!("{}_admin/settings", account.emulator.endpoint());
    let answer = http_client().get(url).send().await.expect("an answer");
    let body = answer.bytes().await.expect("a body");
    let state: Value = serde_json::from_slice(&body).expect("JSON");
    state["faults"][fault]["struck"].as_u64().expect("a number")
}

/// A log-normal delay for some kinds of operation, and a second fault for the tail.
#[tokio::test]
async fn latencies_differ_by_kind_and_have_a_tail() {
    let plan = json!({ "seed": 7, "faults": [
        { "kinds": ["read"], "effects": [{ "delay": { "logNormal": { "medianMs": 1, "p99Ms": 2 } } }] },
        { "kinds": ["upsert"], "effects": [{ "delay": { "fixedMs": 20 } }] },
        { "effects": [{ "delay": { "uniform": { "minMs": 150, "maxMs": 200 } } }], "probability": 0.1 },
    ] });
    let plan: Settings = serde_json::from_value(plan).expect("settings");
    let mut runs = Vec::new();
    for _ in 0..2 {
        let emulator = plan.clone().start().await;
        let account = Account::with(emulator.expect("it starts"), json!({})).await;
        let (mut slow, mut tail) = (0, Vec::new());
        for _ in 0..40 {
            let begun = Instant::now();
            account.item(Method::GET, "a", &[], None).await;
            let time = begun.elapsed();
            let is_slow = struck(&account, 2).await > slow;
            assert!(!is_slow || time >= Duration::from_millis(150), "{time:?}");
            slow += u64::from(is_slow);
            tail.push(is_slow);
        }
        assert!((1..12).contains(&slow), "{slow} of 40");
        let begun = Instant::now();
        let headers = [
            ("x-ms-documentdb-partitionkey", r#"["p"]"#),
            ("x-ms-documentdb-is-upsert", "True"),
        ];
        account
            .post(&headers, &json!({ "id": "a", "pk": "p" }))
            .await;
        assert!(begun.elapsed() >= Duration::from_millis(20));
        runs.push(tail);
    }
    assert_eq!(runs[0], runs[1], "a seed repeats a run");
}

#[tokio::test]
async fn requests_are_counted_by_kind() {
    let account = Account::start().await;
    account.emulator.reset_requests();
    account.create(&json!({ "id": "a", "pk": "p" })).await;
    account.item(Method::GET, "a", &[], None).await;
    account
        .query(
            &[("x-ms-documentdb-partitionkey", r#"["p"]"#)],
            "SELECT * FROM c",
            json!([]),
        )
        .await;
    let log = account.emulator.requests();
    let kinds: Vec<_> = log.counts.into_iter().collect();
    assert_eq!(
        kinds,
        [
            (OperationKind::Read, 1),
            (OperationKind::Create, 1),
            (OperationKind::Query, 1)
        ]
    );
    assert!(log.charge > 7.0, "{}", log.charge);
    assert_eq!(log.queries.keys().collect::<Vec<_>>(), ["SELECT * FROM c"]);
}
