//! Tests of faults that are bound to a physical partition, and of splits that take a while.

use std::time::{Duration, Instant};

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use serde_json::{Value, json};

use crate::account::{Account, Answer, Request, http_client};

/// Starts an account with three physical partitions, and finds a partition key of each.
async fn three_partitions() -> (Account, [String; 3]) {
    let builder = Emulator::builder().physical_partitions(3);
    let account = Account::with(builder.start().await.expect("it starts"), json!({})).await;
    let mut keys = [const { String::new() }; 3];
    for n in 0.. {
        let created = create(&account, &format!("key-{n}")).await;
        let (range, _) = created
            .header("x-ms-session-token")
            .split_once(':')
            .expect("a token");
        keys[range.parse::<usize>().expect("a number")] = format!("key-{n}");
        if keys.iter().all(|key| !key.is_empty()) {
            break;
        }
    }
    (account, keys)
}

/// Creates a document in a logical partition.
async fn create(account: &Account, key: &str) -> Answer {
    let header = json!([key]).to_string();
    let id = uuid::Uuid::new_v4().to_string();
    let headers = [("x-ms-documentdb-partitionkey", &*header)];
    account
        .post(&headers, &json!({ "id": id, "pk": key }))
        .await
}

async fn query(account: &Account, scope: (&str, &str)) -> Answer {
    account.query(&[scope], "SELECT * FROM c", json!([])).await
}

/// Lists the ids of the physical partitions.
async fn listing(account: &Account) -> Vec<String> {
    let listed = account.send(&Request::ranges()).await;
    let ranges = listed.body["PartitionKeyRanges"]
        .as_array()
        .expect("a list");
    let ids = ranges
        .iter()
        .map(|range| range["id"].as_str().expect("a name").to_owned());
    ids.collect()
}

/// Sends a body to an admin route.
async fn admin(account: &Account, path: &str, body: &Value) -> Value {
    let url = format!("{}_admin/{path}", account.emulator.endpoint());
    let request = http_client().post(url).body(body.to_string());
    let answer = request.send().await.expect("an answer");
    serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON")
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.header("x-ms-substatus"))
}

#[tokio::test]
async fn a_fault_of_a_partition_affects_only_requests_that_reach_it() {
    let (account, keys) = three_partitions().await;
    let throttled = Effect::throttled(Duration::from_millis(40));
    let fault = Fault::always(throttled)
        .in_container("db", "c")
        .on_partition("1");
    account.emulator.inject(fault);
    let range = |id| query(&account, ("x-ms-documentdb-partitionkeyrangeid", id));
    for (at, key) in keys.iter().enumerate() {
        let expected = if at == 1 { (429, 429) } else { (201, 200) };
        let created = create(&account, key).await.status;
        let found = range(["0", "1", "2"][at]).await.status;
        assert_eq!((created, found), expected, "partition {at}");
    }
    let refused = create(&account, &keys[1]).await;
    assert_eq!(code(&refused), (429, "3200"));
    assert_eq!(refused.header("x-ms-retry-after-ms"), "40");
    let everywhere = ("x-ms-documentdb-query-enablecrosspartition", "True");
    // The gateway begins with the first partition.
    assert_eq!(query(&account, everywhere).await.status, 200);
    assert_eq!(listing(&account).await, ["0", "1", "2"]);
}

#[tokio::test]
async fn a_partition_fails_in_each_way_for_a_number_of_requests() {
    let (account, keys) = three_partitions().await;
    for (status, substatus) in [(410, 1002), (410, 1007), (503, 0), (500, 0)] {
        let fault = Fault::always(Effect::error(status, substatus))
            .on_partition("2")
            .times(1);
        account.emulator.inject(fault);
        assert_eq!(create(&account, &keys[0]).await.status, 201);
        let failed = create(&account, &keys[2]).await;
        assert_eq!(failed.status, status);
        let shown = if substatus == 0 {
            String::new()
        } else {
            substatus.to_string()
        };
        assert_eq!(failed.header("x-ms-substatus"), shown);
        assert_eq!(create(&account, &keys[2]).await.status, 201);
    }
}

#[tokio::test]
async fn a_silent_partition_does_not_answer_until_the_fault_ends() {
    let (account, keys) = three_partitions().await;
    account
        .emulator
        .inject(Fault::always(Effect::Silence).on_partition("0"));
    let wait = Duration::from_millis(300);
    let silent = tokio::time::timeout(wait, create(&account, &keys[0])).await;
    assert!(silent.is_err(), "{silent:?}");
    assert_eq!(create(&account, &keys[1]).await.status, 201);
    account.emulator.clear_faults();
    assert_eq!(create(&account, &keys[0]).await.status, 201);
    let one = [("x-ms-documentdb-partitionkeyrangeid", "0")];
    let found = account
        .query(&one, "SELECT VALUE COUNT(1) FROM c", json!([]))
        .await;
    let others = format!("the silent request was not executed: {}", found.body);
    let before = account.emulator.requests().counts[&OperationKind::Create];
    assert!(found.documents()[0].as_u64().unwrap() < before, "{others}");
}

#[tokio::test]
async fn a_stopping_emulator_does_not_wait_for_silent_requests() {
    let account = Account::start().await;
    account.emulator.inject(Fault::always(Effect::Silence));
    let url = format!("{}dbs/db/colls/c/docs", account.emulator.endpoint());
    let waiting = tokio::spawn(http_client().get(url).send());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    account.emulator.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert!(waiting.await.unwrap().is_err(), "the connection breaks");
}

#[tokio::test]
async fn a_fault_with_a_duration_ends_by_itself() {
    let (account, keys) = three_partitions().await;
    let fault = json!({ "database": "db", "container": "c", "partitions": ["1"],
        "durationMs": 700, "effects": [{ "status": { "status": 503 } }] });
    let active = admin(&account, "settings", &json!({ "faults": [fault] })).await;
    assert_eq!(active["faults"][0]["durationMs"], 700.0, "{active}");
    let begun = Instant::now();
    assert_eq!(create(&account, &keys[0]).await.status, 201);
    while create(&account, &keys[1]).await.status == 503 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the fault does not end"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        begun.elapsed() >= Duration::from_millis(600),
        "{:?}",
        begun.elapsed()
    );
    let active = admin(&account, "settings", &json!({})).await;
    assert_eq!(active["faults"], json!([]));
}

#[tokio::test]
async fn a_slow_split_answers_that_it_is_not_complete() {
    let account = Account::start().await;
    let split = json!({ "database": "db", "container": "c", "range": "0", "durationMs": 400 });
    let split = admin(&account, "split", &split).await;
    assert_eq!(split, json!({ "children": ["1", "2"] }));
    let begun = Instant::now();
    let range = |id| query(&account, ("x-ms-documentdb-partitionkeyrangeid", id));
    assert_eq!(code(&range("0").await), (410, "1007"));
    let mut created = create(&account, "p").await;
    while created.status == 410 {
        assert_eq!(created.header("x-ms-substatus"), "1007");
        tokio::time::sleep(Duration::from_millis(20)).await;
        created = create(&account, "p").await;
    }
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(created.status, 201);
    assert_eq!(code(&range("0").await), (410, "1002"));
    assert_eq!(range("1").await.status, 200);
    let minute = Duration::from_secs(60);
    let children = account
        .emulator
        .split_slowly("db", "c", "1", minute)
        .unwrap();
    assert_eq!(children, ["3", "4"]);
    assert_eq!(code(&range("4").await), (410, "1007"));
    assert_eq!(range("2").await.status, 200);
    assert!(
        account
            .emulator
            .split_slowly("db", "c", "1", minute)
            .is_err()
    );
}

#[tokio::test]
async fn a_stale_listing_shows_the_partitions_before_the_last_split() {
    let account = Account::start().await;
    let [low, high] = account.emulator.split("db", "c", "0").unwrap();
    account.emulator.split("db", "c", &high).unwrap();
    account
        .emulator
        .inject(Fault::stale_ranges().in_container("db", "c").times(2));
    assert_eq!(listing(&account).await, [&*low, &*high]);
    let range = ("x-ms-documentdb-partitionkeyrangeid", &*high);
    assert_eq!(code(&query(&account, range).await), (410, "1002"));
    assert_eq!(listing(&account).await, [&*low, &*high]);
    assert_eq!(listing(&account).await, [&*low, "3", "4"]);
}
