//! Documents that do not match their types, and foreign documents.

use cdb_provider::TreeScope;
use duroxide::providers::{Provider as _, ProviderAdmin as _, PruneOptions};
use duroxide::{Event, EventKind};
use serde_json::json;

use super::raw::Raw;
use super::{activities, impatient, orchestrations};
use crate::harness::{TestEnv, eventually, long_locks};
use crate::several::turn_with;
use crate::work_items::{metadata_of, start_of, started};

async fn env() -> TestEnv {
    let mut env = TestEnv::without_runtime().await;
    env.join(activities(), orchestrations(), impatient()).await;
    env
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_message_fails_only_its_instance() {
    let env = env().await;
    let Some(raw) = Raw::of(&env) else { return };
    env.begin("hurt", "Wait", "").await;
    env.until_subscribed("hurt", "Go").await;
    raw.put(&json!({
        "id": "hurt:orch:odd", "type": "orch_queue", "instanceId": "hurt", "visibleAt": 1000,
        "dispatchSlot": 1, "workItem": "{}", "enqueuedAt": "long ago",
    }))
    .await;
    assert_eq!(env.run("well", "Echo", "fine").await, Ok("fine".to_owned()));
    let reason = env.end_of("hurt").await.expect_err("it cannot go on");
    let reason = reason.display_message();
    assert!(reason.contains("hurt:orch:odd"), "{reason}");
    says!(reason, "it is not a `OrchestratorItem`");
    // The failed turn has deleted it.
    assert_eq!(raw.of_type("hurt", "orch_queue").await.len(), 0);
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_instance_fails_with_the_reason() {
    let env = env().await;
    let Some(raw) = Raw::of(&env) else { return };
    env.begin("hurt", "Wait", "").await;
    env.until_subscribed("hurt", "Go").await;
    raw.damage("hurt", "instance", |instance| instance["status"] = json!(5))
        .await;
    env.raise("hurt", "Go", "on").await;
    assert_eq!(env.run("well", "Echo", "fine").await, Ok("fine".to_owned()));
    let reason = env.end_of("hurt").await.expect_err("it cannot go on");
    let reason = reason.display_message();
    assert!(reason.contains("it is not a `Instance`"), "{reason}");
    // The failed turn has rewritten the document.
    let info = ok!(env.client.get_instance_info("hurt"));
    assert_eq!(
        (&*info.status, &*info.orchestration_name),
        ("Failed", "Wait")
    );
    ok!(env.client.delete_instance("hurt", false));
    assert_eq!(raw.documents("hurt").await.len(), 0);
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_activity_blocks_no_worker_and_ends() {
    let env = env().await;
    let Some(raw) = Raw::of(&env) else { return };
    for number in 0..4 {
        raw.put(&json!({
            "id": format!("ghost:work:1:{number}"), "type": "worker_queue", "instanceId": "ghost",
            "visibleAt": 1000, "dispatchSlot": 1, "workItem": 5,
        }))
        .await;
    }
    // Without an event number no instance can be notified, so the document stays.
    raw.put(&json!({
        "id": "nowhere", "type": "worker_queue", "instanceId": "ghost", "visibleAt": 1000,
    }))
    .await;
    for name in ["one", "two"] {
        assert_eq!(env.run(name, "Echo", name).await, Ok(name.to_owned()));
    }
    // Ten attempts, a second apart. Then its completion goes to a missing instance.
    eventually(async || raw.documents("ghost").await.len() == 1).await;
    assert_eq!(raw.documents("ghost").await[0]["id"], "nowhere");
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_session_is_claimed_again() {
    let env = env().await;
    let Some(raw) = Raw::of(&env) else { return };
    raw.put(&json!({
        "id": "talk:session:s", "type": "session", "instanceId": "talk", "lockedUntil": "now",
    }))
    .await;
    assert_eq!(
        env.run("talk", "Session", "fine").await,
        Ok("fine".to_owned())
    );
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_intent_is_set_aside_and_others_are_delivered() {
    let env = env().await;
    let Some(raw) = Raw::of(&env) else { return };
    for number in 0..120 {
        raw.put(&json!({
            "id": format!("odd:intent:{number}"), "type": "outbox_intent", "instanceId": "odd", "createdAt": 1000,
        }))
        .await;
    }
    env.begin("ask", "Ask", "child").await;
    env.until_subscribed("child", "Go").await;
    env.raise("child", "Go", "on").await;
    assert_eq!(env.end_of("ask").await, Ok("on".to_owned()));
    eventually(async || {
        let intents = raw.of_type("odd", "outbox_intent").await;
        let told = |intent: &serde_json::Value| {
            let failure = intent["failure"].as_str().unwrap_or_default();
            failure.contains("it is not a `OutboxIntent`")
        };
        intents.len() == 120 && intents.iter().all(told)
    })
    .await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_documents_in_a_partition_are_left_alone() {
    let env = env().await;
    let Some(raw) = Raw::of(&env) else { return };
    let foreign = [
        json!({ "id": "note", "instanceId": "shared", "text": "no type at all" }),
        json!({ "id": "order", "type": "order", "instanceId": "shared", "visibleAt": 1000 }),
        json!({ "id": "number", "type": 5, "instanceId": "shared", "executionId": 1 }),
    ];
    for document in &foreign {
        raw.put(document).await;
    }
    assert_eq!(
        env.run("shared", "Echo", "fine").await,
        Ok("fine".to_owned())
    );
    let prune = env
        .client
        .prune_executions("shared", PruneOptions::default());
    prune.await.expect("pruned");
    let deleted = env.client.delete_instance("shared", false).await;
    assert_eq!(deleted.expect("deleted").instances_deleted, 1);
    let mut left = raw.documents("shared").await;
    left.sort_by_key(|document| document["id"].to_string());
    let ids: Vec<&str> = left.iter().filter_map(|left| left["id"].as_str()).collect();
    assert_eq!(ids, ["note", "number", "order"]);
    // Another instance can use the id.
    assert_eq!(
        env.run("shared", "Echo", "again").await,
        Ok("again".to_owned())
    );
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_documents_are_deleted_with_their_instance() {
    let env = env().await;
    let Some(raw) = Raw::of(&env) else { return };
    assert_eq!(env.run("old", "Echo", "fine").await, Ok("fine".to_owned()));
    for r#type in [
        "instance",
        "history",
        "execution",
        "orch_queue",
        "kv",
        "spill",
        "session",
    ] {
        // An unknown form of a newer version.
        raw.put(
            &json!({ "id": format!("odd-{type}"), "type": r#type, "instanceId": "old", "form": 7 }),
        )
        .await;
    }
    ok!(env.client.delete_instance("old", true));
    let left = raw.documents("old").await;
    assert!(left.is_empty(), "{left:?}");
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_intent_counts_as_the_start_of_a_child() {
    let env = TestEnv::without_runtime().await;
    let Some(raw) = Raw::of(&env) else { return };
    let lock = long_locks().orchestrator_lock_timeout;
    let (_, token, _) = turn_with(&env.provider, start_of("parent", "Ask"), lock).await;
    let kinds = [
        started("Ask", ""),
        EventKind::SubOrchestrationScheduled {
            name: "Wait".to_owned(),
            instance: "child".to_owned(),
            input: String::new(),
        },
    ];
    let events = (1..).zip(kinds);
    let events = events.map(|(id, kind)| Event::with_event_id(id, "parent", 1, None, kind));
    let (events, metadata) = (events.collect(), metadata_of("Ask"));
    let provider = &env.provider;
    let acked =
        provider.ack_orchestration_item(&token, 1, events, vec![], vec![], metadata, vec![]);
    acked.await.expect("the turn is committed");
    raw.put(&json!({
        "id": "parent:intent:odd", "type": "outbox_intent", "instanceId": "parent", "createdAt": "long ago",
    }))
    .await;
    let paused = provider.pause("parent", TreeScope::Tree, "ada").await;
    assert_eq!(paused.expect("they are paused"), ["parent", "child"]);
    env.stop().await;
}

#[tokio::test]
async fn an_instance_whose_start_is_no_message_is_deleted_by_force() {
    let env = TestEnv::without_runtime().await;
    let Some(raw) = Raw::of(&env) else { return };
    // The first text is no JSON; the second document is no message.
    for change in [
        |start: &mut serde_json::Value| start["workItem"] = "{no message".into(),
        |start: &mut serde_json::Value| start["workItem"] = 5.into(),
    ] {
        env.begin("taker", "Taker", "").await;
        raw.damage("taker", "orch_queue", change).await;
        env.raise("taker", "Go", "on").await;
        ok!(env.provider.delete_instance("taker", true));
        let left = raw.documents("taker").await;
        assert!(left.is_empty(), "{left:?}");
    }
    env.stop().await;
}
