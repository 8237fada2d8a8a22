//! The reconciler: stuck intents delay no others, runtimes divide the intents, and an intent is
//! not redelivered after the traces of its first delivery. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::documents::{
    IntentItem, IntentQueue, OrchestratorItem, OutboxIntent, OutboxIntentKey, Text,
};
use cdb_provider::model::{Document as _, Query, Timestamp};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider};
use cdb_tests::Backend;
use tokio::time::Instant;

use crate::harness::{finds_turn, until_some};
use crate::network::{Network, PATCH};
use crate::partitions::{SICK, instances};
use crate::several::{begin, event, run_turn};

/// Creates an intent that holds one event for `target`.
async fn create(provider: &CosmosDBProvider, key: OutboxIntentKey, target: &str, at: Timestamp) {
    let mut intent = OutboxIntent::new(&key.instance_id, key.idempotency_key, target, at);
    intent.items.push(IntentItem {
        queue: IntentQueue::Orchestrator,
        work_item: Text::Inline(serde_json::to_string(&event(target)).expect("it is JSON")),
        visible_at: Timestamp::default(),
    });
    let created = provider.container().run(intent.create()).await;
    created.expect("the intent is new");
}

/// Returns the number of intents of a sender.
async fn intents(provider: &CosmosDBProvider, sender: &str) -> usize {
    let query = Query::<OutboxIntent>::in_partition(sender);
    let found = provider.container().query(query).all().await;
    found.expect("the sender's partition answers").len()
}

/// Waits until a sender has `count` intents. Returns the time that this took.
async fn until_left(provider: &CosmosDBProvider, sender: &str, count: usize) -> Duration {
    let begun = Instant::now();
    while intents(provider, sender).await > count {
        assert!(begun.elapsed() < Duration::from_secs(200), "they are stuck");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    begun.elapsed()
}

/// Returns the number of messages in the queue of an instance.
async fn messages(provider: &CosmosDBProvider, instance: &str) -> usize {
    let query = Query::<OrchestratorItem>::in_partition(instance);
    let found = provider.container().query(query).all().await;
    found.expect("the partition answers").len()
}

/// Instances of sound physical partitions, and instances of the one that will be sick.
async fn sound_and_sick(provider: &CosmosDBProvider) -> (Vec<String>, Vec<String>) {
    let all = instances(provider, 400).await.into_iter();
    let (sick, sound): (Vec<_>, Vec<_>) = all.partition(|(_, range)| range == SICK);
    let ids = |list: Vec<(String, String)>| list.into_iter().map(|(id, _)| id).collect();
    (ids(sound), ids(sick))
}

#[tokio::test(start_paused = true)]
async fn a_hundred_stuck_intents_delay_no_other() {
    let backend = or_skip!(Backend::start_simulated_on(8).await);
    let runtime = backend.provider().await;
    let (sound, sick) = sound_and_sick(&runtime).await;
    let emulator = backend.emulator().expect("not on an account");
    emulator.inject(Fault::always(Effect::error(503, 0)).on_partition(SICK));
    let now = || runtime.container().now();
    let (stuck, other) = (&*sound[0], &*sound[1]);
    for number in 0..100 {
        let key = OutboxIntentKey::new(stuck, format!("stuck-{number}"));
        create(&runtime, key, &sick[number % sick.len()], now()).await;
    }
    tokio::time::sleep(Duration::from_secs(40)).await;
    for round in 0..3 {
        for (number, target) in sound[2..22].iter().enumerate() {
            let key = OutboxIntentKey::new(other, format!("other-{round}-{number}"));
            create(&runtime, key, target, now()).await;
        }
        let took = until_left(&runtime, other, 0).await;
        assert!(took < Duration::from_secs(8), "delivered after {took:?}");
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    assert_eq!(intents(&runtime, stuck).await, 100);
    emulator.clear_faults();
    let took = until_left(&runtime, stuck, 0).await;
    assert!(took < Duration::from_secs(40), "recovered after {took:?}");
    assert!(runtime.undeliverable(1).await.expect("answers").is_empty());
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_delivery_to_a_failing_target_backs_off() {
    let backend = or_skip!(Backend::start_simulated_on(8).await);
    let runtime = backend.provider().await;
    let (sound, sick) = sound_and_sick(&runtime).await;
    let emulator = backend.emulator().expect("not on an account");
    let unavailable = Fault::always(Effect::error(503, 0)).on_partition(SICK);
    emulator.inject(unavailable.on(OperationKind::Bulk));
    let key = OutboxIntentKey::new(&*sound[0], "stuck");
    create(&runtime, key, &sick[0], runtime.container().now()).await;
    let mut deliveries = Vec::new();
    for _ in 0..4 {
        emulator.reset_requests();
        tokio::time::sleep(Duration::from_secs(70)).await;
        let log = emulator.requests();
        deliveries.push(log.counts.get(&OperationKind::Bulk).copied().unwrap_or(0));
    }
    assert!(
        deliveries[1..].iter().all(|sent| *sent > 0),
        "{deliveries:?}"
    );
    assert!(
        deliveries[1..].iter().all(|sent| *sent < 40),
        "{deliveries:?}"
    );
    backend.stop().await;
}

/// A backend whose own providers do not reconcile.
async fn quiet() -> Backend {
    let day = Duration::from_secs(24 * 3600);
    Backend::start_simulated_with(|config| config.reconciler_interval = day).await
}

/// A runtime that serves share `index` of the dispatch slots of two runtimes.
async fn half(quiet: &CosmosDBProvider, index: u32) -> CosmosDBProvider {
    let config = CosmosDBProviderConfig {
        reconciler_interval: Duration::from_millis(200),
        reconciler_age_threshold: Duration::from_millis(200),
        leases: Some(Arc::new(InMemoryLeaseProvider::share(index, 2))),
        ..cdb_tests::settings()
    };
    let opened = CosmosDBProvider::on(quiet.container().clone(), &config).await;
    opened.expect("it opens")
}

/// Creates intents of 40 senders for one target.
async fn of_many_senders(provider: &CosmosDBProvider) {
    for number in 0..40 {
        let key = OutboxIntentKey::new(format!("sender-{number}"), format!("k-{number}"));
        create(provider, key, "target", provider.container().now()).await;
    }
}

/// Waits until the intents of all senders are delivered. Returns the time that this took.
async fn until_delivered(provider: &CosmosDBProvider) -> Duration {
    let begun = Instant::now();
    for number in 0..40 {
        until_left(provider, &format!("sender-{number}"), 0).await;
    }
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn two_runtimes_do_not_deliver_the_same_intent() {
    let backend = quiet().await;
    let emulator = or_skip!(backend.emulator(), "only the emulator counts requests");
    let sender = backend.provider().await;
    let _runtimes = (half(&sender, 0).await, half(&sender, 1).await);
    of_many_senders(&sender).await;
    emulator.reset_requests();
    until_delivered(&sender).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Each delivered intent is deleted by a batch of its own.
    let batches = emulator.requests().counts[&OperationKind::Batch];
    assert_eq!(batches, 40);
    assert_eq!(messages(&sender, "target").await, 40);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_takes_over_the_overdue_intents_of_another() {
    let backend = quiet().await;
    let sender = backend.provider().await;
    // The other half of the cluster never starts.
    let _runtime = half(&sender, 0).await;
    of_many_senders(&sender).await;
    let took = until_delivered(&sender).await;
    assert!(took > Duration::from_secs(5), "{took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(messages(&sender, "target").await, 40);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_intent_older_than_the_traces_of_its_messages_becomes_a_dead_letter() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    let hours = |hours: u64| runtime.container().now() - Duration::from_secs(hours * 3600);
    let key = |name: &str| OutboxIntentKey::new("sender", name);
    create(&runtime, key("old"), "target", hours(24)).await;
    create(&runtime, key("young"), "target", hours(22)).await;
    let dead_letter = until_some(async || {
        let found = runtime.undeliverable(10).await.expect("they can be read");
        found.into_iter().next()
    })
    .await;
    let intent = &dead_letter.document;
    assert_eq!(intent.idempotency_key, "old");
    let reason = intent.failure.as_deref().unwrap_or_default();
    assert!(reason.contains("older than 23 h"), "{reason}");
    until_left(&runtime, "sender", 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(messages(&runtime, "target").await, 1);

    let redelivered = runtime.deliver_again(&dead_letter).await;
    redelivered.expect("an operator can redeliver it");
    until_left(&runtime, "sender", 0).await;
    assert_eq!(messages(&runtime, "target").await, 2);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_without_an_answer_is_not_reported_for_an_intent_that_another_discards() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    let network = Network::default();
    let operator = or_skip!(network.provider(&backend).await);
    let day = runtime.container().now() - Duration::from_secs(24 * 3600);
    create(
        &runtime,
        OutboxIntentKey::new("sender", "old"),
        "target",
        day,
    )
    .await;
    let dead_letter = until_some(async || {
        let found = runtime.undeliverable(10).await.expect("they can be read");
        found.into_iter().next()
    })
    .await;
    network.swallow(PATCH);
    let (redelivered, ()) = tokio::join!(operator.deliver_again(&dead_letter), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let discarded = runtime.discard(&dead_letter).await;
        discarded.expect("nothing of it is lost");
    });
    assert!(redelivered.is_err(), "{redelivered:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_postponed_intent_keeps_its_age() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    let now = runtime.container().now();
    let mut intent = OutboxIntent::new("sender", "k".to_owned(), "target", now);
    intent.payload = Some("this is not a document".to_owned());
    intent.created_at = now - Duration::from_secs(23 * 3600 - 2);
    let created = runtime.container().run(intent.create()).await;
    created.expect("it is new");
    let dead_letter = until_some(async || {
        let found = runtime.undeliverable(10).await.expect("they can be read");
        found.into_iter().next()
    })
    .await;
    let intent = &dead_letter.document;
    let reason = intent.failure.as_deref().unwrap_or_default();
    assert!(reason.contains("older than 23 h"), "{reason}");
    assert!((2..9).contains(&intent.attempt_count), "{intent:?}");
    backend.stop().await;
}

/// As by a runtime that stood still after its delivery.
#[tokio::test(start_paused = true)]
async fn an_intent_that_is_delivered_again_after_minutes_repeats_no_message() {
    const LOCK: Duration = Duration::from_secs(30);
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let runtime = backend.provider().await;
    begin(&runtime, "target", LOCK).await;
    let at = runtime.container().now();
    let key = || OutboxIntentKey::new("sender", "k");
    create(&runtime, key(), "target", at).await;
    until_left(&runtime, "sender", 0).await;
    run_turn(&runtime, LOCK).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    create(&runtime, key(), "target", at).await;
    until_left(&runtime, "sender", 0).await;
    assert!(!finds_turn(&runtime, LOCK, LOCK).await, "it is received");
    backend.stop().await;
}
