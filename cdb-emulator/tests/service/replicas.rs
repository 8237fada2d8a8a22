//! Tests of lagging replicas: reads without a session token, or with an older one.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_emulator::{Consistency, Emulator, ReplicaLag, Settings};
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request, ask};

const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
const STRATEGY: &str = "x-ms-cosmos-read-consistency-strategy";

async fn lagging(lag: ReplicaLag) -> Account {
    let builder = Emulator::builder().replica_lag(lag);
    Account::with(builder.start().await.expect("it starts"), json!({})).await
}

async fn upsert(account: &Account, id: &str, n: u64) -> Answer {
    let headers = [KEY, ("x-ms-documentdb-is-upsert", "True")];
    let body = json!({ "id": id, "pk": "p", "n": n });
    account.post(&headers, &body).await
}

async fn read(account: &Account, id: &str, headers: Headers<'_>) -> Answer {
    account.item(Method::GET, id, headers, None).await
}

/// Reads with the session token of an earlier response.
async fn read_after(account: &Account, id: &str, earlier: &Answer) -> Answer {
    let token = earlier.header("x-ms-session-token");
    read(account, id, &[("x-ms-session-token", token)]).await
}

/// Returns `n` of all documents by id, as a query sees them.
async fn contents(account: &Account, scope: (&str, &str)) -> BTreeMap<String, u64> {
    let found = account
        .query(&[scope], "SELECT c.id, c.n FROM c ORDER BY c.n", json!([]))
        .await;
    assert_eq!(found.status, 200, "{}", found.body);
    let of = |document: Value| {
        let id = document["id"].as_str().expect("an id").to_owned();
        (id, document["n"].as_u64().expect("a number"))
    };
    found.documents().into_iter().map(of).collect()
}

async fn feed(account: &Account, etag: &str) -> Answer {
    account
        .send(&Request::docs(Method::GET).headers(&[
            ("a-im", "Incremental Feed"),
            ("x-ms-documentdb-partitionkeyrangeid", "0"),
            ("if-none-match", etag),
        ]))
        .await
}

#[tokio::test]
async fn replicas_are_up_to_date_by_default() {
    let account = Account::start().await;
    upsert(&account, "a", 1).await;
    assert_eq!(read(&account, "a", &[]).await.status, 200);
}

#[tokio::test]
async fn a_read_without_a_session_token_misses_the_last_write() {
    let account = lagging(ReplicaLag::writes(1)).await;
    let created = upsert(&account, "a", 1).await;
    let missing = read(&account, "a", &[]).await;
    missing.has(404, "x-ms-substatus", "");
    assert_eq!(read_after(&account, "a", &created).await.body["n"], 1);
    let replaced = upsert(&account, "a", 2).await;
    let stale = read(&account, "a", &[]).await;
    assert_eq!(stale.body["n"], 1);
    assert_eq!(read_after(&account, "a", &replaced).await.body["n"], 2);
    let old = ("if-match", stale.header("etag"));
    let refused = account.item(Method::DELETE, "a", &[old], None).await;
    assert_eq!(refused.status, 412, "writes see the newest state");
    let current = ("if-match", replaced.header("etag"));
    let deleted = account.item(Method::DELETE, "a", &[current], None).await;
    assert_eq!(deleted.status, 204);
    assert_eq!(read(&account, "a", &[]).await.body["n"], 2);
    assert_eq!(read_after(&account, "a", &deleted).await.status, 404);
}

#[tokio::test]
async fn a_session_token_is_a_lower_bound() {
    let account = lagging(ReplicaLag::writes(3)).await;
    let first = upsert(&account, "a", 1).await;
    for n in 2..=4 {
        upsert(&account, "a", n).await;
    }
    assert_eq!(read(&account, "a", &[]).await.body["n"], 1);
    let second = upsert(&account, "b", 1).await;
    assert_eq!(read_after(&account, "a", &first).await.body["n"], 2);
    assert_eq!(read_after(&account, "a", &second).await.body["n"], 4);
    let stale = read(&account, "a", &[]).await;
    assert_eq!(read_after(&account, "a", &stale).await.body["n"], 2);
    let token = second.header("x-ms-session-token");
    for weaker in [
        ("x-ms-consistency-level", "Eventual"),
        (STRATEGY, "Eventual"),
    ] {
        let headers = [("x-ms-session-token", token), weaker];
        assert_eq!(
            read(&account, "a", &headers).await.body["n"],
            2,
            "{weaker:?}"
        );
    }
}

#[tokio::test]
async fn a_query_sees_exactly_the_state_before_the_missing_writes() {
    for folder in [None, Some(tempfile::tempdir().expect("a folder"))] {
        let mut builder = Emulator::builder().replica_lag(ReplicaLag::writes(3));
        if let Some(folder) = &folder {
            builder = builder.data_dir(folder.path());
        }
        let account = Account::with(builder.start().await.expect("it starts"), json!({})).await;
        let mut states = vec![BTreeMap::new()];
        for n in 0..200_u64 {
            // Numbers without a pattern, but the same in every run.
            let draw = (n * 7919 + 13) % 101;
            let id = format!("{}", draw % 6);
            let mut state = states.last().expect("a state").clone();
            if draw > 60 && state.remove(&id).is_some() {
                let deleted = account.item(Method::DELETE, &id, &[], None).await;
                assert_eq!(deleted.status, 204);
            } else {
                upsert(&account, &id, n).await;
                state.insert(id, n);
            }
            states.push(state);
            // A refused write is no write.
            let missing = account.item(Method::DELETE, "missing", &[], None).await;
            assert_eq!(missing.status, 404);
            let expected = &states[states.len().saturating_sub(4)];
            let range = ("x-ms-documentdb-partitionkeyrangeid", "0");
            for scope in [KEY, range] {
                assert_eq!(
                    contents(&account, scope).await,
                    *expected,
                    "write {n}, {scope:?}"
                );
            }
            let count = account
                .query(&[KEY], "SELECT VALUE COUNT(1) FROM c", json!([]))
                .await;
            assert_eq!(count.documents(), [json!(expected.len())]);
        }
        let no_lag = |settings: Settings| settings.replica_lag(None);
        assert!(account.emulator.change(no_lag).is_ok());
        assert_eq!(contents(&account, KEY).await, states[states.len() - 1]);
    }
}

#[tokio::test]
async fn a_batch_is_one_write() {
    let account = lagging(ReplicaLag::writes(1)).await;
    let create = |id: &str| {
        let document = json!({ "id": id, "pk": "p", "n": 1 });
        json!({ "operationType": "Create", "resourceBody": document })
    };
    let first = json!([create("a"), create("b")]);
    let second = json!([create("c"), create("d")]);
    account.batch(&first).await.is(200);
    assert!(contents(&account, KEY).await.is_empty());
    account.batch(&second).await.is(200);
    assert_eq!(
        contents(&account, KEY)
            .await
            .into_keys()
            .collect::<String>(),
        "ab"
    );
}

#[tokio::test]
async fn each_partition_lags_by_its_own_writes() {
    let account = lagging(ReplicaLag::writes(1)).await;
    account.emulator.split("db", "c", "0").expect("a split");
    let mut by_range = BTreeMap::new();
    for n in 0..40 {
        let key = json!([n]).to_string();
        let body = json!({ "id": n.to_string(), "pk": n, "n": n });
        let created = account
            .post(&[("x-ms-documentdb-partitionkey", &key)], &body)
            .await;
        let (range, _) = created
            .header("x-ms-session-token")
            .split_once(':')
            .expect("a token");
        by_range
            .entry(range.to_owned())
            .or_insert_with(Vec::new)
            .push(n.to_string());
    }
    assert_eq!(by_range.len(), 2);
    for (range, mut ids) in by_range {
        ids.pop();
        ids.sort();
        let found = contents(&account, ("x-ms-documentdb-partitionkeyrangeid", &range)).await;
        assert_eq!(
            found.into_keys().collect::<Vec<_>>(),
            ids,
            "partition {range}"
        );
    }
}

#[tokio::test]
async fn a_feed_returns_a_missing_write_later() {
    let account = lagging(ReplicaLag::writes(1)).await;
    upsert(&account, "a", 1).await;
    upsert(&account, "b", 2).await;
    let first = feed(&account, "\"0\"").await;
    let ids = |answer: &Answer| -> Vec<Value> {
        answer
            .documents()
            .iter()
            .map(|document| document["id"].clone())
            .collect()
    };
    assert_eq!(ids(&first), ["a"]);
    let none = feed(&account, first.header("etag")).await;
    assert_eq!(none.status, 304);
    upsert(&account, "c", 3).await;
    assert_eq!(ids(&feed(&account, none.header("etag")).await), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_reaches_all_replicas_after_the_time_of_the_service() {
    let builder = Emulator::builder().replica_lag(ReplicaLag::time(Duration::from_secs(60)));
    let account = Account::simulated(builder, json!({})).await;
    upsert(&account, "a", 1).await;
    for (seconds, status) in [(0, 404), (59, 404), (1, 200)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(read(&account, "a", &[]).await.status, status, "{seconds}");
    }
}

#[tokio::test]
async fn the_latest_commit_costs_twice_as_much_unless_the_gateway_ignores_it() {
    let account = lagging(ReplicaLag::writes(1)).await;
    upsert(&account, "a", 1).await;
    upsert(&account, "a", 2).await;
    let latest = [(STRATEGY, "LatestCommitted")];
    let stale = read(&account, "a", &[]).await;
    let current = read(&account, "a", &latest).await;
    assert_eq!(
        (&stale.body["n"], &current.body["n"]),
        (&json!(1), &json!(2))
    );
    let twice = stale.charge() * 2.0;
    assert!(
        (current.charge() - twice).abs() < 0.01,
        "{} RU",
        current.charge()
    );
    let sql = "SELECT VALUE c.n FROM c";
    let current = account.query(&[KEY, latest[0]], sql, json!([])).await;
    assert_eq!(current.documents(), [json!(2)]);
    let older = |settings: Settings| settings.ignore_latest_committed(true);
    account.emulator.change(older).unwrap();
    let ignored = read(&account, "a", &latest).await;
    assert_eq!(
        (&ignored.body["n"], ignored.charge()),
        (&json!(1), stale.charge())
    );
}

#[tokio::test]
async fn a_seed_repeats_which_reads_lag() {
    let mut runs = Vec::new();
    for seed in [5, 5, 6] {
        let lag = ReplicaLag::writes(1).with_probability(0.5);
        let builder = Emulator::builder().replica_lag(lag).seed(seed);
        let account = Account::with(builder.start().await.expect("it starts"), json!({})).await;
        upsert(&account, "a", 1).await;
        let mut statuses = Vec::new();
        for _ in 0..40 {
            statuses.push(read(&account, "a", &[]).await.status);
        }
        assert!(
            statuses.contains(&200) && statuses.contains(&404),
            "{statuses:?}"
        );
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn the_lag_is_changed_over_http() {
    let account = Account::start().await;
    let admin = async |method: Method, body: Value| {
        let emulator = &account.emulator;
        ask(emulator, method, "_admin/settings", &body.to_string()).await
    };
    let state = async |method: Method, body: Value| {
        let (status, state) = admin(method, body).await;
        let (lag, ignored) = (&state["replicaLag"], &state["ignoreLatestCommitted"]);
        (
            status,
            json!({ "replicaLag": lag, "ignoreLatestCommitted": ignored }),
        )
    };
    let lag = json!({ "writes": 2, "timeMs": 60_000 });
    let set = json!({ "replicaLag": lag, "ignoreLatestCommitted": true });
    let lag = json!({ "writes": 2, "timeMs": 60_000.0, "probability": 1.0 });
    let on = json!({ "replicaLag": lag, "ignoreLatestCommitted": true });
    assert_eq!(state(Method::POST, set).await, (200, on.clone()));
    assert_eq!(state(Method::GET, json!({})).await, (200, on));
    upsert(&account, "a", 1).await;
    read(&account, "a", &[(STRATEGY, "LatestCommitted")])
        .await
        .is(404);
    let off = json!({ "replicaLag": null, "ignoreLatestCommitted": true });
    let no_lag = json!({ "replicaLag": null });
    assert_eq!(state(Method::POST, no_lag).await, (200, off));
    assert_eq!(read(&account, "a", &[]).await.status, 200);
    for (lag, says) in [
        (json!({}), "`writes`, `timeMs` or both"),
        (json!({ "writes": 1, "probability": 3 }), "between 0 and 1"),
        (json!({ "write": 1 }), "unknown field `write`"),
    ] {
        let (status, refused) = admin(Method::POST, json!({ "replicaLag": lag })).await;
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(says), "{refused}");
    }
}

/// Source: azure_data_cosmos_driver, `ReadConsistencyStrategy::is_session_effective`.
#[tokio::test]
async fn session_tokens_count_only_on_an_account_with_session_consistency() {
    for (level, name, status) in [
        (Consistency::Session, "Session", 404),
        (Consistency::ConsistentPrefix, "ConsistentPrefix", 200),
        (Consistency::Eventual, "Eventual", 200),
    ] {
        let emulator = Emulator::builder().consistency(level).start().await;
        let account = Account::with(emulator.expect("it starts"), json!({})).await;
        upsert(&account, "a", 1).await;
        let ahead = [("x-ms-session-token", "0:-1#99")];
        assert_eq!(read(&account, "a", &ahead).await.status, status, "{name}");
        let document = account.send(&Request::to(Method::GET, "", "")).await.body;
        let stated = &document["userConsistencyPolicy"]["defaultConsistencyLevel"];
        assert_eq!(stated, name);
    }
}
