//! Replicas that lag behind the writes of other processes, and behind writes whose answer was
//! lost. Locks last longer than any wait, so a lock that is not released is a stall.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, Latency, OperationKind, ReplicaLag};
use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::providers::{Provider, TagFilter};

use crate::harness::{next_activity, next_turn};
use crate::several::{begin, enqueue, start};

const LONG: Duration = Duration::from_secs(24 * 3600);

/// Two providers with session tokens of their own, on replicas that lag by this much.
async fn lagging(lag: Duration) -> Option<(Backend, CosmosDBProvider, CosmosDBProvider)> {
    let (backend, first) = Backend::failing(|_| {}).await?;
    let second = backend.provider().await;
    let lag = ReplicaLag::time(lag);
    let set = emulator(&backend).change(|settings| settings.replica_lag(lag));
    set.expect("replicas may lag");
    Some((backend, first, second))
}

fn emulator(backend: &Backend) -> &Emulator {
    backend.emulator().expect("it fails on demand")
}

/// Drops a fetch after its lock is written and before the answer is known.
async fn drop_fetch(emulator: &Emulator, lock: OperationKind, fetch: impl Future) {
    emulator.inject(Fault::once(Effect::DropAnswer).on(lock));
    let slow = Effect::Delay(Latency::Fixed(Duration::from_secs(60)));
    emulator.inject(Fault::always(slow).on(OperationKind::Read));
    let dropped = tokio::time::timeout(Duration::from_secs(1), fetch).await;
    assert!(dropped.is_err(), "it finds out whether it has the lock");
    emulator.clear_faults();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_dropped_fetch_is_released_although_replicas_lag() {
    let (backend, first, second) = or_skip!(lagging(Duration::from_secs(4)).await);
    enqueue(&first, start("dropped")).await;
    let fetch = first.fetch_orchestration_item(LONG, LONG, None);
    drop_fetch(emulator(&backend), OperationKind::Create, fetch).await;
    let found = tokio::time::timeout(Duration::from_secs(30), next_turn(&second, LONG)).await;
    let (item, _, _) = found.expect("the lock is released");
    assert_eq!(item.instance, "dropped");
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_dropped_activity_fetch_is_released_although_replicas_lag() {
    let (backend, first, second) = or_skip!(lagging(Duration::from_secs(4)).await);
    let activity = crate::work_items::activity_of("dropped", 2, None);
    ok!(first.enqueue_for_worker(activity.clone()));
    let fetch = first.fetch_work_item(LONG, LONG, None, &TagFilter::Any);
    drop_fetch(emulator(&backend), OperationKind::Patch, fetch).await;
    let found = next_activity(&second, LONG, None);
    let found = tokio::time::timeout(Duration::from_secs(30), found).await;
    let (item, _, _) = found.expect("the lock is released");
    assert_eq!(item, activity);
    backend.stop().await;
}

#[tokio::test]
async fn a_deletion_with_a_lost_answer_succeeds_although_replicas_lag() {
    let (backend, provider, _) = or_skip!(lagging(Duration::from_secs(60)).await);
    begin(&provider, "deleted", LONG).await;
    emulator(&backend).inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    let admin = provider.as_management_capability().expect("it has one");
    let deleted = admin.delete_instance("deleted", true).await;
    let deleted = deleted.expect("the deletion took place");
    assert_eq!((deleted.instances_deleted, deleted.events_deleted), (1, 1));
    backend.stop().await;
}
