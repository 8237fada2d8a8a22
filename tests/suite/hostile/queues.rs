//! Items that no runtime can process do not delay others, and are dropped in time.

use std::time::Duration;

use cdb_client::{CosmosClient, MasterKey};
use cdb_provider::model::operation::BulkBatch;
use cdb_provider::model::{Container, Document};
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::raw::Raw;
use super::{activities, impatient, orchestrations};
use crate::harness::{TestEnv, eventually};

async fn queued(env: &TestEnv) -> usize {
    let depths = env.provider.get_queue_depths().await.expect("depths");
    depths.orchestrator_queue
}

fn event(instance: &str) -> WorkItem {
    crate::work_items::event_of(instance, "Go", "on")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_cannot_start_do_not_delay_others() {
    let mut env = TestEnv::without_runtime().await;
    for number in 0..150 {
        let early = event(&format!("never-{number}"));
        ok!(env.provider.enqueue_for_orchestrator(early, None));
    }
    if let Some(raw) = Raw::of(&env) {
        // Due before all others, and outside of every instance's partition.
        for number in 0..30 {
            raw.put(&json!({
                "id": format!("foreign-{number}"), "type": "orch_queue", "instanceId": number, "visibleAt": 1000,
            }))
            .await;
        }
    }
    env.join(activities(), orchestrations(), impatient()).await;
    assert_eq!(env.run("well", "Echo", "fine").await, Ok("fine".to_owned()));
    // They were not lost: a later start uses them.
    assert_eq!(
        env.run("never-7", "Echo", "at last").await,
        Ok("at last".to_owned())
    );
    env.stop().await;
}

/// A queue message without an instance.
#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "orch_queue", id = "foreign-{number}")]
struct Nobody {
    #[document(partition_key)]
    #[serde(rename = "instanceId")]
    number: u32,
    visible_at: u32,
}

#[derive(Container)]
enum Junk {
    Nobody(Nobody),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_behind_more_items_than_one_poll_returns_is_found() {
    let mut env = TestEnv::without_runtime().await;
    let emulator = or_skip!(env.emulator(), "it takes as many requests");
    let junk = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key()).expect("a key"))
        .build()
        .expect("a client")
        .database("duroxide")
        .container::<Junk>(env.provider.container().name());
    // The deepest poll asks for 1,088.
    for first in (0..3_000_u32).step_by(100) {
        let mut bulk = BulkBatch::<Junk>::new();
        for number in first..first + 100 {
            let visible_at = 1_000 + number;
            bulk.add(Nobody { number, visible_at }.create())
                .expect("it fits");
        }
        for created in junk.execute_bulk(&bulk).await {
            created.expect("it is stored");
        }
    }
    env.join(activities(), orchestrations(), impatient()).await;
    assert_eq!(env.run("well", "Echo", "fine").await, Ok("fine".to_owned()));
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_of_an_instance_that_never_starts_is_dropped() {
    let mut env =
        TestEnv::with_config(|config| config.unclaimed_age = Duration::from_millis(500)).await;
    env.join(activities(), orchestrations(), impatient()).await;
    ok!(env.client.cancel_instance("never", "no more"));
    env.raise("never", "Go", "on").await;
    eventually(async || queued(&env).await == 0).await;
    let instances = env.client.list_all_instances().await.expect("a list");
    assert!(instances.is_empty(), "{instances:?}");
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_waits_for_a_delayed_start() {
    let mut env =
        TestEnv::with_config(|config| config.unclaimed_age = Duration::from_millis(200)).await;
    env.join(activities(), orchestrations(), impatient()).await;
    let start = crate::work_items::start_of("later", "Wait");
    let delay = Some(Duration::from_secs(3));
    ok!(env.provider.enqueue_for_orchestrator(start, delay));
    ok!(env.client.cancel_instance("later", "no more"));
    eventually(async || env.client.get_instance_info("later").await.is_ok()).await;
    let ended = env
        .end_of("later")
        .await
        .expect_err("it was cancelled before it began");
    let reason = ended.display_message();
    assert!(reason.contains("no more"), "{reason}");
    env.stop().await;
}
