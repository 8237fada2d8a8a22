//! Tests of faults and of the request log.

use std::time::{Duration, Instant};

use cdb_emulator::{Effect, Fault, OperationKind};
use reqwest::Method;
use serde_json::json;

use crate::account::Account;

#[tokio::test]
async fn an_injected_status_prevents_the_execution() {
    let account = Account::start().await;
    account.emulator.inject(Fault::once(Effect::Status {
        status: 429,
        substatus: 3200,
        retry_after_ms: Some(40),
    }));
    let refused = account.create(&json!({ "id": "a", "pk": "p" })).await;
    assert_eq!(
        (refused.status, refused.header("x-ms-retry-after-ms")),
        (429, "40")
    );
    assert_eq!(
        account
            .create(&json!({ "id": "a", "pk": "p" }))
            .await
            .status,
        201
    );
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

#[tokio::test]
async fn rights_are_missing_for_a_while_and_then_return() {
    let account = Account::start().await;
    account.create(&json!({ "id": "a", "pk": "p" })).await;
    for (status, substatus, shown) in [(403, 5302, "5302"), (403, 0, ""), (401, 0, "")] {
        let missing = Fault::always(Effect::error(status, substatus)).on_every_kind();
        account
            .emulator
            .inject(missing.lasting(Duration::from_millis(300)));
        let begun = Instant::now();
        let database = account.database().await;
        assert_eq!(database.status, status, "metadata is refused too");
        let mut read = account.item(Method::GET, "a", &[], None).await;
        while read.status == status {
            assert_eq!(read.header("x-ms-substatus"), shown);
            tokio::time::sleep(Duration::from_millis(20)).await;
            read = account.item(Method::GET, "a", &[], None).await;
        }
        assert_eq!(read.status, 200);
        assert!(
            begun.elapsed() >= Duration::from_millis(250),
            "{:?}",
            begun.elapsed()
        );
    }
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
