//! Messages that exceed the provider's memory limit are found in the store.
//!
//! The messages are large, so that a few reach the limit: 30 × 600 KB, which count twice, exceed 32
//! MiB. The last ones are larger, so that none of them fits into the remaining memory.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::providers::{Provider, WorkItem};

use super::{LONG, commit, next_turn, poll_once, quiet};
use crate::harness::finds_turn;
use crate::several::{enqueue, event, start};

/// How many messages fill the memory, and their size.
const MANY: usize = 30;
const MANY_BYTES: usize = 600 * 1024;
/// The number of messages that another process enqueues, and their size.
const FEW: usize = 5;
const FEW_BYTES: usize = 900 * 1024;

/// Enqueues starts of the instances `{name}-0` to `{name}-{count - 1}`.
async fn enqueue_starts(
    provider: &CosmosDBProvider,
    (name, count, bytes): (&str, usize, usize),
    delay: Option<Duration>,
) {
    for number in 0..count {
        let item = start(&format!("{name}-{number}"));
        let item = crate::work_items::with_input(item, "x".repeat(bytes));
        ok!(provider.enqueue_for_orchestrator(item, delay));
    }
}

/// Fetches and commits a turn of `count` instances. Returns their ids.
async fn work_on(provider: &CosmosDBProvider, count: usize) -> BTreeSet<String> {
    let mut instances = BTreeSet::new();
    while instances.len() < count {
        let (item, token) = next_turn(provider).await;
        commit(provider, &token, vec![], vec![]).await;
        instances.insert(item.instance);
    }
    instances
}

#[tokio::test]
async fn starts_of_another_process_are_found_behind_many_delayed_starts() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let delay = Some(Duration::from_secs(250));
    enqueue_starts(&provider, ("delayed", MANY, MANY_BYTES), delay).await;
    enqueue_starts(&backend.provider().await, ("late", FEW, FEW_BYTES), None).await;
    let instances = work_on(&provider, FEW).await;
    let late = |instance: &String| instance.starts_with("late-");
    assert!(instances.iter().all(late), "{instances:?}");
    backend.stop().await;
}

#[tokio::test]
async fn delayed_starts_beyond_the_memory_begin_without_a_poll_when_they_are_due() {
    let (backend, provider) = quiet().await;
    let delay = Some(Duration::from_secs(2));
    enqueue_starts(&provider, ("delayed", MANY, MANY_BYTES), delay).await;
    assert_eq!(work_on(&provider, MANY).await.len(), MANY);
    backend.stop().await;
}

#[tokio::test]
async fn starts_are_found_after_another_process_handled_many_polled_messages() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let (other, enqueuer) = (backend.provider().await, backend.provider().await);
    enqueue_starts(&enqueuer, ("polled", MANY, MANY_BYTES), None).await;
    // One poll finds all of them. The other process handles all but the first sooner.
    assert!(finds_turn(&provider, LONG, Duration::ZERO).await);
    assert_eq!(work_on(&other, MANY - 1).await.len(), MANY - 1);
    // While the dispatcher tries the second one, the next poll finds no other.
    let slow = Effect::Delay(Duration::from_secs(1).into());
    let emulator = backend.emulator().expect("it fails on demand");
    emulator.inject(Fault::once(slow).on(OperationKind::Create));
    let mut next = Box::pin(next_turn(&provider));
    tokio::select! {
        _ = &mut next => panic!("nothing is left"),
        () = tokio::time::sleep(Duration::from_millis(1500)) => {}
    }
    enqueue_starts(&enqueuer, ("late", FEW, FEW_BYTES), None).await;
    let (item, token) = next.await;
    assert!(item.instance.starts_with("late-"), "{}", item.instance);
    commit(&provider, &token, vec![], vec![]).await;
    assert_eq!(work_on(&provider, FEW - 1).await.len(), FEW - 1);
    backend.stop().await;
}

#[tokio::test]
async fn a_timer_fires_without_a_poll_after_its_instance_was_loaded() {
    let (backend, provider) = quiet().await;
    let other = backend.provider().await;
    poll_once(&other).await;
    enqueue(&provider, start("i")).await;
    let (_, token) = next_turn(&provider).await;
    let fire_at = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let fire_at = fire_at.expect("a time after 1970") + Duration::from_secs(3);
    let timer = WorkItem::TimerFired {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 2,
        fire_at_ms: u64::try_from(fire_at.as_millis()).expect("a time before the end of days"),
    };
    commit(&provider, &token, vec![], vec![timer.clone()]).await;
    // A turn in another process makes this cache outdated, so the next turn loads the instance.
    enqueue(&other, event("i")).await;
    let (_, token) = next_turn(&other).await;
    commit(&other, &token, vec![], vec![]).await;
    enqueue(&provider, event("i")).await;
    let (item, token) = next_turn(&provider).await;
    assert_eq!(item.messages.len(), 1, "{:?}", item.messages);
    commit(&provider, &token, vec![], vec![]).await;
    let (item, _) = next_turn(&provider).await;
    assert_eq!(item.messages, [timer]);
    backend.stop().await;
}
