//! Messages that are sent with effects.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::Patch;
use cdb_provider::coordination::{Message, Messaging, OutboxBatch, Received};
use duroxide::runtime::registry::ActivityRegistry;
use serde::{Deserialize, Serialize};

use super::{Counter, CounterKey, Env, Runs, Shop, act, short_locks};
use crate::harness::eventually;

const INSTANCES: i64 = 12;

/// The partition that receives the messages.
const TARGET: &str = "target";

#[derive(Serialize, Deserialize)]
struct Count {
    by: i64,
}

impl Message for Count {
    const TYPE: &'static str = "count";
}

fn messaging(shop: &ContainerClient<Shop>) -> Messaging<Shop> {
    let count = async |count: Received<Count>, mut batch: OutboxBatch<Shop>| {
        let more = Patch::new().incr(Counter::EFFECTS, count.message.by);
        batch.add(more.at(&CounterKey::new(TARGET)))?;
        Ok(batch)
    };
    Messaging::builder(shop.clone())
        .on(count)
        .start()
        .expect("the durations fit")
}

/// Runs activities that send messages to one partition. Those of one instance compete for its
/// stream.
async fn each_message_is_received_once(orchestration: &str, count: i64, fault: Option<Fault>) {
    let mut env = Env::start().await;
    or_skip!(env.backend.emulator(), "needs the emulator");
    env.create_counter(TARGET).await;
    let messaging = messaging(&env.shop);
    let (own, runs) = (messaging.clone(), Runs::default());
    let counted = runs.clone();
    let is_calm = fault.is_none();
    env.join(short_locks(), move |provider, _| {
        let act = provider.transactional_with(&own, move |ctx, tx, text: String| {
            counted.next();
            async move {
                tx.send(TARGET, &Count { by: 1 })?;
                act(ctx, tx, text).await
            }
        });
        ActivityRegistry::builder().register("Act", act).build()
    })
    .await;
    let instances: Vec<String> = (0..INSTANCES).map(|n| format!("sends-{n}")).collect();
    for instance in &instances {
        env.create_counter(instance).await;
    }
    let emulator = env.backend.emulator().expect("it was there before");
    if let Some(fault) = fault {
        emulator.inject(fault);
    }
    for instance in &instances {
        let begun = env
            .client
            .start_orchestration(instance, orchestration, count.to_string());
        begun.await.expect("the instance starts");
    }
    for instance in &instances {
        env.end_of(instance).await.expect("it ends");
        assert_eq!(env.counted(instance).await, count, "{instance}");
    }
    eventually(async || env.counted(TARGET).await >= count * INSTANCES).await;
    // A second delivery would be received soon.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(env.counted(TARGET).await, count * INSTANCES);
    if is_calm {
        // A stream that another activity used first does not run the body again.
        assert_eq!(i64::try_from(runs.count()), Ok(count * INSTANCES));
    }
    messaging.stop().await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_an_activity_is_received_once() {
    each_message_is_received_once("Run", 1, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_concurrent_activities_of_one_instance_are_received_once() {
    each_message_is_received_once("Many", 6, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_received_once_when_batches_lose_their_answers() {
    let lost = Fault::with_probability(Effect::DropAnswer, 0.2).on(OperationKind::Batch);
    each_message_is_received_once("Many", 3, Some(lost)).await;
}
