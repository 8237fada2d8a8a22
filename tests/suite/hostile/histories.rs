//! Damaged histories: their instances fail with the reason, their parents are notified, other
//! instances go on.

use duroxide::providers::ProviderAdmin;
use serde_json::{Value, json};

use super::raw::Raw;
use super::{activities, impatient, orchestrations};
use crate::harness::{TestEnv, eventually};

/// The events of a history document.
fn events(document: &Value) -> Vec<Value> {
    let text = document["eventData"].as_str().expect("a text");
    serde_json::from_str(text).expect("events")
}

fn with_events(document: &mut Value, events: &[Value]) {
    document["eventData"] = json!(json!(events).to_string());
}

/// A way to damage a history document, and a part of the error.
type Damage = (&'static str, fn(&mut Value), &'static str);

const DAMAGES: [Damage; 8] = [
    ("no-json", |it| it["eventData"] = json!("[{"), "EOF"),
    (
        "no-event",
        |it| it["eventData"] = json!("[{\"event_id\":1}]"),
        "missing field",
    ),
    (
        "unknown-event",
        |it| {
            let mut all = events(it);
            all[0]["type"] = json!("OrchestrationDreamt");
            with_events(it, &all);
        },
        "OrchestrationDreamt",
    ),
    (
        "gap",
        |it| {
            let mut all = events(it);
            all.pop();
            with_events(it, &all);
        },
        "instead of",
    ),
    (
        "twice",
        |it| {
            let mut all = events(it);
            all.push(all[0].clone());
            it["eventCount"] = json!(all.len());
            with_events(it, &all);
        },
        "event 1 follows event",
    ),
    (
        "wrong-type",
        |it| it["eventCount"] = json!("many"),
        "it is not a `HistorySegment`",
    ),
    (
        "no-text",
        |it| it["eventData"] = json!(7),
        "it is not a `HistorySegment`",
    ),
    (
        "no-chunks",
        |it| {
            it["eventData"] = json!({
                "instanceId": it["instanceId"], "blob": "gone", "chunks": 4_000_000_000_u32, "bytes": 9_007_199_254_740_991_u64,
            });
        },
        "a chunk is missing",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_history_fails_only_its_instance_with_the_reason() {
    let mut env = TestEnv::without_runtime().await;
    let Some(raw) = Raw::of(&env) else { return };
    env.join(activities(), orchestrations(), impatient()).await;
    for id in DAMAGES.iter().map(|(id, ..)| *id).chain(["well"]) {
        env.begin(id, "Wait", "").await;
        env.until_subscribed(id, "Go").await;
    }
    // The cache of the first runtime is not damaged; another runtime reads the store.
    env.kill_runtimes().await;
    for (id, damage, _) in DAMAGES {
        raw.damage(id, "history", damage).await;
    }
    env.join(activities(), orchestrations(), impatient()).await;
    for id in DAMAGES.iter().map(|(id, ..)| *id).chain(["well"]) {
        env.raise(id, "Go", "on").await;
    }
    assert_eq!(env.end_of("well").await, Ok("on".to_owned()));
    for (id, _, words) in DAMAGES {
        // Until then its history cannot be read, also not by a client that waits for its end.
        eventually(async || {
            let info = env.client.get_instance_info(id).await;
            info.expect("an instance").status == "Failed"
        })
        .await;
        let reason = env.end_of(id).await.expect_err("it is damaged");
        let reason = reason.display_message();
        assert!(reason.contains(words), "no `{words}` in: {reason}");
        let info = env.client.get_instance_info(id).await.expect("an instance");
        assert_eq!(info.status, "Failed", "{id}");
        // Later messages are dropped.
        env.raise(id, "Go", "late").await;
    }
    eventually(async || {
        let depths = env.provider.get_queue_depths().await.expect("depths");
        depths.orchestrator_queue == 0
    })
    .await;
    for (id, ..) in DAMAGES {
        ok!(env.client.delete_instance(id, false));
        assert_eq!(raw.documents(id).await.len(), 0, "{id}");
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parent_of_a_damaged_child_is_notified() {
    let mut env = TestEnv::without_runtime().await;
    let Some(raw) = Raw::of(&env) else { return };
    env.join(activities(), orchestrations(), impatient()).await;
    env.begin("parent", "Ask", "child").await;
    env.until_subscribed("child", "Go").await;
    env.kill_runtimes().await;
    raw.damage("child", "history", |it| it["eventCount"] = json!(9))
        .await;
    env.join(activities(), orchestrations(), impatient()).await;
    env.raise("child", "Go", "on").await;
    let reason = env
        .end_of("parent")
        .await
        .expect_err("its child is damaged");
    let reason = reason.display_message();
    assert!(reason.contains("instead of 9"), "{reason}");
    env.stop().await;
}
