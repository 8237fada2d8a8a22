//! The responses of the dashboard's server, and the requests that it rejects.

use cdb_model::Document as _;
use std::time::Duration;

use cdb_provider::documents::{HistorySegment, Instance, InstanceKey, Status};
use reqwest::{Client, Response};
use serde_json::Value;

use super::serving::Serving;
use crate::fixture::{at, dead_intent, fill, instance, members, started};
use crate::harness::Account;

pub(crate) fn http() -> Client {
    // An error means that another test of the process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().expect("a client")
}

pub(crate) async fn get(serving: &Serving, path: &str) -> Response {
    let (address, token) = serving.parts();
    let request = http().get(format!("{address}/{path}"));
    let answer = request.header("x-cdb-token", token).send().await;
    answer.expect("an answer")
}

pub(crate) async fn json(serving: &Serving, path: &str) -> Value {
    let answer = get(serving, path).await;
    serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_are_listed_in_pages_and_shown_one_by_one() {
    let account = Account::start().await;
    fill(&account).await;
    let serving = Serving::start(&account, &[]);
    let list = json(&serving, "api/instances?limit=2").await;
    assert_eq!(list["instances"][0]["id"], "order-3");
    let next = list["next"].as_str().expect("there are more");
    let rest = json(&serving, &format!("api/instances?from={next}")).await;
    assert_eq!(rest["instances"][1]["id"], "order-1");
    let found = json(&serving, "api/instances?status=Running&text=Ship").await;
    assert_eq!(found["instances"][0]["id"], "order-2::sub::4");
    let shown = json(&serving, "api/instances/order-2").await;
    assert_eq!(shown["messages"][0]["what"], "ExternalRaised Approved");
    let tree = json(&serving, "api/instances/order-2/tree").await;
    assert_eq!(tree["children"][0]["id"], "order-2::sub::4");
    assert_eq!(get(&serving, "api/instances/missing").await.status(), 404);
    assert_eq!(
        get(&serving, "api/instances?from=nonsense").await.status(),
        400
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_are_filtered_ordered_and_listed_with_the_number_of_their_children() {
    let account = Account::start().await;
    fill(&account).await;
    let serving = Serving::start(&account, &[]);
    let at = |seconds| at(seconds).as_millis();
    let between = format!("after={}&before={}", at(31), at(63));
    for (query, expected) in [
        ("roots=true", vec!["order-3", "order-2", "order-1"]),
        (
            "roots=true&oldestFirst=true&limit=2",
            vec!["order-1", "order-2"],
        ),
        ("parent=order-2", vec!["order-2::sub::4"]),
        ("orchestration=Ship&version=1.0.0", vec!["order-2::sub::4"]),
        ("customStatus=charge", vec!["order-2"]),
        ("where=customer%3Dbob%20total%3C990", vec!["order-2"]),
        ("version=2", vec![]),
        (&between, vec!["order-2::sub::4", "order-2"]),
    ] {
        let list = json(&serving, &format!("api/instances?{query}")).await;
        let rows = list["instances"].as_array().expect("instances");
        let ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
        assert_eq!(ids, expected, "{query}");
    }
    let list = json(&serving, "api/instances?roots=true&customStatus=charge").await;
    assert_eq!(list["children"], serde_json::json!({ "order-2": 1 }));
    assert_eq!(list["examined"], 3);
    let refused = get(&serving, "api/instances?where=customer").await;
    assert_eq!(refused.status(), 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_counts_instances_by_state_and_by_the_time_of_their_end() {
    let account = Account::start().await;
    let container = fill(&account).await;
    let now = container.now();
    for (id, status, age) in [
        ("new-1", Status::Completed, 0),
        ("new-2", Status::Failed, 50),
        ("new-3", Status::Failed, 60 * 30),
    ] {
        let ended = Instance {
            completed_at: Some(now - Duration::from_secs(age)),
            ..instance(id, "Order", status, 0)
        };
        container.run(ended.create()).await.expect("it is stored");
    }
    let serving = Serving::start(&account, &[]);
    // The second answer takes the buckets of the past from the first one.
    for _ in 0..2 {
        let numbers = json(&serving, "api/overview").await;
        let states = ["running", "completed", "failed"].map(|name| numbers[name].as_u64());
        assert_eq!(states, [Some(2), Some(2), Some(3)]);
        let ended = numbers["ended"].as_array().expect("buckets");
        let total = |name: &str| -> u64 { ended.iter().filter_map(|one| one[name].as_u64()).sum() };
        assert_eq!(
            (ended.len(), total("completed"), total("failed")),
            (24, 1, 2)
        );
    }
    let week = json(&serving, "api/overview?window=week").await;
    assert_eq!(week["bucketMs"], 7 * 60 * 60 * 1000);
    assert_eq!(
        get(&serving, "api/overview?window=year").await.status(),
        400
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_of_a_watched_instance_is_sent_to_the_page() {
    let account = Account::start().await;
    let container = fill(&account).await;
    let serving = Serving::start(&account, &[]);
    let order = container.read(&InstanceKey::new("order-2")).await;
    let mut order = order.expect("it is read").expect("it exists").document;
    let since = order.updated_at.as_millis();
    let path = format!("api/instances/order-2/live?since={since}");
    let mut events = get(&serving, &path).await;
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    order.updated_at = container.now();
    container.run(order.replace()).await.expect("it is stored");
    let changed = events.chunk().await.expect("an event").expect("bytes");
    assert_eq!(changed, "event: changed\ndata: {}\n\n");
    order.status = Status::Completed;
    container.run(order.replace()).await.expect("it is stored");
    let rest = events.text().await.expect("the stream ends");
    assert_eq!(rest, "event: final\ndata: {}\n\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_has_the_bars_of_the_timeline() {
    let account = Account::start().await;
    fill(&account).await;
    let serving = Serving::start(&account, &[]);
    let history = json(&serving, "api/instances/order-2/history").await;
    let bars = history["bars"].as_array().expect("bars");
    let lanes: Vec<&str> = bars.iter().filter_map(|bar| bar["lane"].as_str()).collect();
    assert_eq!(
        lanes,
        [
            "turn",
            "turn",
            "activity",
            "timer",
            "subOrchestration",
            "activity"
        ]
    );
    let time = |bar: usize, name: &str| bars[bar][name].as_u64();
    assert_eq!(
        time(2, "to")
            .zip(time(2, "from"))
            .map(|(to, from)| to - from),
        Some(3000)
    );
    assert_eq!(time(3, "to"), None, "the timer has not fired");
    assert_eq!(bars[4]["instance"], "order-2::sub::4");
    // The page links the instance that an event starts.
    let data: Vec<&Value> = history["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event.get("data"))
        .collect();
    assert_eq!(
        data,
        [&serde_json::json!({ "instance": "order-2::sub::4" })]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_members_and_outbox_are_shown() {
    let account = Account::start().await;
    members(&fill(&account).await).await;
    let serving = Serving::start(&account, &[]);
    let work = json(&serving, "api/queues").await;
    assert_eq!(work["queues"]["slots"][0]["slot"], 43);
    assert_eq!(work["members"]["members"][1]["silent"], true);
    assert!(work["queues"].get("limitedKeys").is_none(), "{work}");
    let paused = account.cdb("limits set --by ada * --running 0").await;
    paused.prints("paused");
    let work = json(&serving, "api/queues").await;
    assert_eq!(work["queues"]["limitedKeys"][0]["waiting"], 1);
    let outbox = json(&serving, "api/messages?failed=delivery").await;
    assert_eq!(outbox["messages"][0]["to"], "order-2::sub::4");
    assert_eq!(json(&serving, "api/about").await["actions"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_instance_is_restarted_under_a_new_id_and_a_running_one_is_not() {
    let account = Account::start().await;
    let container = fill(&account).await;
    let segment = HistorySegment::pack("order-1", 1, &[started("order-1")]);
    let segment = segment.expect("it packs").expect("events");
    container.run(segment.create()).await.expect("a segment");
    let serving = Serving::start(&account, &["--allow-actions"]);
    let (address, token) = serving.parts();
    let restart = async |id: &str, body: &'static str| {
        let request = http().post(format!("{address}/api/instances/{id}/restart"));
        let request = request.header("x-cdb-token", token).body(body);
        let answer = request.header("content-type", "application/json").send();
        answer.await.expect("an answer").status().as_u16()
    };
    assert_eq!(restart("order-1", r#"{ "as": "order-4" }"#).await, 200);
    assert_eq!(restart("order-1", r#"{ "as": "order-4" }"#).await, 400);
    assert_eq!(restart("order-1", "{}").await, 200);
    assert_eq!(restart("order-2", "{}").await, 400);
    assert_eq!(restart("missing", "{}").await, 404);
    for id in ["order-4", "order-1-restart"] {
        let queued = account.cdb(&["instances", "show", id]).await;
        queued.complains("StartOrchestration Order");
    }
}

/// Sends a change with the token.
pub(crate) async fn change(serving: &Serving, path: &str) -> u16 {
    let (address, token) = serving.parts();
    let request = http().post(format!("{address}/{path}"));
    let answer = request.header("x-cdb-token", token).send().await;
    answer.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_shown_and_redriven_once() {
    let account = Account::start().await;
    dead_intent(&fill(&account).await).await;
    let serving = Serving::start(&account, &["--allow-actions"]);
    let page = json(&serving, "api/messages?state=dead").await;
    assert_eq!(page["messages"][0]["name"], "intent-turn-1@order-3");
    let path = "api/messages/intent-turn-1%40order-3";
    let shown = json(&serving, path).await;
    assert_eq!(shown["contents"][1], "ExternalRaised Released");
    assert_eq!(get(&serving, "api/messages/nonsense").await.status(), 400);
    assert_eq!(change(&serving, &format!("{path}/redrive")).await, 200);
    for late in ["redrive", "discard"] {
        assert_eq!(change(&serving, &format!("{path}/{late}")).await, 404);
    }
    let outbox = json(&serving, "api/messages?failed=delivery").await;
    assert_eq!(outbox["messages"][1]["from"], "order-3");
}
