//! Deletions deliver the messages of an instance first, and keep an instance that continues in the
//! meantime.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{
    Instance, InstanceKey, IntentItem, IntentQueue, OutboxIntent, Status, Text,
};
use cdb_provider::model::{Document as _, Patch};
use cdb_tests::Backend;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, InstanceFilter, Provider as _, ProviderAdmin as _, ProviderError,
    WorkItem,
};

use crate::harness::{next_activity, next_turn};
use crate::network::Network;
use crate::retention::{CHILDREN_OF_REWOUND, create, partitions};
use crate::several::{ack, enqueue, turn_with};
use crate::work_items::{
    activity_of, child_of, child_scheduled, completion_of, metadata_of, start_of, started,
};

/// Deletes the ended instance `rewound`, which continues during the search for its children.
/// Returns the number of deleted instances, and whether it is kept.
async fn delete_while_it_continues(
    delete: impl AsyncFnOnce(&CosmosDBProvider) -> Result<DeleteInstanceResult, ProviderError>,
) -> Option<(Result<DeleteInstanceResult, ProviderError>, bool)> {
    let backend = Backend::start_simulated().await;
    let network = Network::default();
    let provider = network.provider(&backend).await?;
    create(&provider, "rewound", None, Status::Failed).await;
    network.answer_late(CHILDREN_OF_REWOUND, Duration::from_secs(10));
    let rewind = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let running = Patch::<Instance>::new().set(Instance::STATUS, Status::Running);
        let key = InstanceKey::new("rewound");
        ok!(provider.container().run(running.at(&key)));
    };
    let (deleted, ()) = tokio::join!(delete(&provider), rewind);
    let is_kept = !partitions(&provider).await.is_empty();
    backend.stop().await;
    Some((deleted, is_kept))
}

#[tokio::test(start_paused = true)]
async fn a_bulk_deletion_keeps_an_instance_that_continues_after_the_list() {
    let delete = async |provider: &CosmosDBProvider| {
        let filter = InstanceFilter::default();
        provider.delete_instance_bulk(filter).await
    };
    let (deleted, is_kept) = or_skip!(delete_while_it_continues(delete).await);
    assert!(is_kept, "a running instance was deleted");
    assert_eq!(deleted.expect("the others").instances_deleted, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_force_refuses_an_instance_that_continues_after_the_check() {
    let delete = async |provider: &CosmosDBProvider| {
        let ids = ["rewound".to_owned()];
        provider.delete_instances_atomic(&ids, false).await
    };
    let (deleted, is_kept) = or_skip!(delete_while_it_continues(delete).await);
    assert!(is_kept, "a running instance was deleted");
    let refused = deleted.expect_err("it is running").message;
    assert!(refused.contains("is still running"), "{refused}");
}

/// Creates the ended instance `sender`, with an undelivered start of this instance by this parent.
async fn sender_of(provider: &CosmosDBProvider, target: &str, parent: Option<&str>) {
    create(provider, "sender", None, Status::Completed).await;
    let mut start = start_of(target, "Wait");
    if let Some(parent) = parent {
        start = child_of(parent, start);
    }
    send(provider, "sender", target, &start).await;
}

/// Stores a message between two instances that is not delivered.
async fn send(provider: &CosmosDBProvider, sender: &str, target: &str, message: &WorkItem) {
    let now = provider.container().now();
    let mut intent = OutboxIntent::new(sender, "turn-1-0".to_owned(), target, now);
    intent.items.push(IntentItem {
        queue: IntentQueue::Orchestrator,
        work_item: Text::Inline(serde_json::to_string(message).expect("it is JSON")),
        visible_at: now,
    });
    ok!(provider.container().run(intent.create()));
}

/// A provider that does not deliver the intents of others.
async fn without_reconciler() -> Option<(Backend, CosmosDBProvider)> {
    let day = Duration::from_secs(24 * 3600);
    Backend::failing(|config| config.reconciler_interval = day).await
}

/// Deletes the ended instance `sender` while its undelivered start of `detached` cannot be
/// delivered, and again when it can.
async fn delete_a_sender(
    delete: impl AsyncFn(&CosmosDBProvider) -> Result<u64, ProviderError>,
) -> Option<Result<u64, ProviderError>> {
    let (backend, provider) = without_reconciler().await?;
    sender_of(&provider, "detached", None).await;
    let emulator = backend.emulator().expect("checked before");
    emulator.inject(Fault::always(Effect::error(400, 0)).on(OperationKind::Bulk));
    let failed = delete(&provider).await;
    let left = partitions(&provider).await;
    assert!(left.contains("sender"), "the message is lost: {left:?}");
    emulator.clear_faults();
    assert_eq!(delete(&provider).await.expect("it is deleted"), 1);
    let left = partitions(&provider).await;
    assert_eq!(left, BTreeSet::from(["detached".to_owned()]));
    let lock = Duration::from_secs(5);
    let fetched = provider.fetch_orchestration_item(lock, Duration::ZERO, None);
    let (item, ..) = fetched.await.expect("fetch").expect("it starts");
    assert_eq!(item.instance, "detached");
    backend.stop().await;
    Some(failed)
}

#[tokio::test]
async fn a_purge_delivers_the_messages_of_an_ended_instance_before_it_deletes_it() {
    let purge = async |provider: &CosmosDBProvider| {
        let mut purge = provider.purge_ended(Duration::from_secs(60));
        while purge.next_slice().await?.is_some() {}
        Ok(purge.purged().instances_deleted)
    };
    let skipped = or_skip!(delete_a_sender(purge).await);
    assert_eq!(skipped.expect("others can be deleted"), 0);
}

#[tokio::test]
async fn a_deletion_delivers_the_messages_of_the_instance_before_it_deletes_it() {
    let delete = async |provider: &CosmosDBProvider| {
        let deleted = provider.delete_instance("sender", true).await?;
        Ok(deleted.instances_deleted)
    };
    let failed = or_skip!(delete_a_sender(delete).await);
    let failed = failed.expect_err("the message cannot be delivered");
    assert!(failed.is_retryable(), "{failed}");
    assert!(failed.message.contains("undelivered"), "{failed}");
}

#[tokio::test]
async fn a_deletion_does_not_start_children_of_the_deleted_instance() {
    let (backend, provider) = or_skip!(without_reconciler().await);
    sender_of(&provider, "child", Some("sender")).await;
    let deleted = provider.delete_instance("sender", true).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    assert!(partitions(&provider).await.is_empty());
    backend.stop().await;
}

/// Deletes a parent that has not delivered a message to its child. Returns the instances whose partitions
/// are left: the child is deleted first, and a message that is delivered afterwards would stay.
async fn delete_with_message_to_child(force: bool) -> BTreeSet<String> {
    let day = Duration::from_secs(24 * 3600);
    let backend = Backend::start_simulated_with(|config| config.reconciler_interval = day).await;
    let provider = backend.provider().await;
    let status = || {
        if force {
            Status::Running
        } else {
            Status::Completed
        }
    };
    create(&provider, "parent", None, status()).await;
    create(&provider, "child", Some("parent"), status()).await;
    let cancel = WorkItem::CancelInstance {
        instance: "child".to_owned(),
        reason: "enough".to_owned(),
    };
    send(&provider, "parent", "child", &cancel).await;
    let deleted = provider.delete_instance("parent", force).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 2);
    let left = partitions(&provider).await;
    backend.stop().await;
    left
}

#[tokio::test(start_paused = true)]
async fn a_deletion_delivers_no_message_from_a_parent_to_its_deleted_child() {
    assert_eq!(delete_with_message_to_child(false).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_delivers_no_message_from_a_parent_to_its_deleted_child() {
    assert_eq!(delete_with_message_to_child(true).await, BTreeSet::new());
}

const LOCK: Duration = Duration::from_secs(30);

/// Commits a first turn of `parent` that schedules this child. Its start is delivered.
async fn schedule(provider: &CosmosDBProvider, child: &str) {
    let (_, token, _) = turn_with(provider, start_of("parent", "Wait"), LOCK).await;
    let kinds = [started("Wait", ""), child_scheduled("Wait", child)];
    let events = (1..).zip(kinds);
    let events = events.map(|(id, kind)| Event::with_event_id(id, "parent", 1, None, kind));
    let start = child_of("parent", start_of(child, "Wait"));
    let (events, metadata) = (events.collect(), metadata_of("Wait"));
    let acked =
        provider.ack_orchestration_item(&token, 1, events, vec![], vec![start], metadata, vec![]);
    acked.await.expect("the turn is committed");
}

/// Deletes `parent` by force. Returns the instances whose partitions are left.
async fn delete_parent(provider: &CosmosDBProvider) -> BTreeSet<String> {
    let refused = provider.delete_instance("parent", false).await;
    let refused = refused.expect_err("it is running").message;
    assert!(refused.contains("is still running"), "{refused}");
    ok!(provider.delete_instance("parent", true));
    partitions(provider).await
}

#[tokio::test(start_paused = true)]
async fn a_child_that_has_not_begun_is_deleted_with_its_parent() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    schedule(&provider, "child").await;
    assert_eq!(delete_parent(&provider).await, BTreeSet::new());
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_turn_of_a_child_is_lost_when_its_parent_is_deleted() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    schedule(&provider, "child").await;
    let (turn, token, _) = next_turn(&provider, LOCK).await;
    assert_eq!(turn.instance, "child");
    assert_eq!(delete_parent(&provider).await, BTreeSet::new());
    let (event, metadata) = (
        Event::with_event_id(1, "child", 1, None, started("Wait", "")),
        metadata_of("Wait"),
    );
    let acked =
        provider.ack_orchestration_item(&token, 1, vec![event], vec![], vec![], metadata, vec![]);
    acked.await.expect_err("the lock is lost");
    assert_eq!(partitions(&provider).await, BTreeSet::new());
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_of_its_own_is_kept_although_a_deleted_parent_scheduled_its_id() {
    for has_begun in [false, true] {
        let backend = Backend::start_simulated().await;
        let provider = backend.provider().await;
        if has_begun {
            let (turn, token, _) = turn_with(&provider, start_of("own", "Wait"), LOCK).await;
            ack(&provider, &turn, &token).await;
        }
        schedule(&provider, "own").await;
        if !has_begun {
            enqueue(&provider, start_of("own", "Wait")).await;
        }
        let left = delete_parent(&provider).await;
        assert_eq!(left, BTreeSet::from(["own".to_owned()]));
        backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_between_two_executions_is_running() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    create(&provider, "again", None, Status::ContinuedAsNew).await;
    let metrics = provider.get_system_metrics().await.expect("it answers");
    assert_eq!((metrics.total_instances, metrics.running_instances), (1, 1));
    for delete in [
        provider.delete_instance("again", false).await,
        provider
            .delete_instances_atomic(&["again".to_owned()], false)
            .await,
    ] {
        let refused = delete.expect_err("it is running").message;
        assert!(refused.contains("is still running"), "{refused}");
    }
    let deleted = provider.delete_instance_bulk(InstanceFilter::default());
    assert_eq!(deleted.await.expect("an answer").instances_deleted, 0);
    let deleted = provider.delete_instance("again", true).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    assert!(partitions(&provider).await.is_empty());
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_returns_after_the_hand_outs_of_locked_activities() {
    for is_running in [true, false] {
        let backend = Backend::start_simulated().await;
        let (provider, worker) = (backend.provider().await, backend.provider().await);
        let status = if is_running {
            Status::Running
        } else {
            Status::Completed
        };
        create(&provider, "i", None, status).await;
        ok!(provider.enqueue_for_worker(activity_of("i", 2, None)));
        let (_, token, _) = next_activity(&worker, LOCK, None).await;
        let began = tokio::time::Instant::now();
        ok!(provider.delete_instance("i", true));
        // Its worker may be about to begin it.
        let has_waited = began.elapsed() >= Duration::from_secs(1);
        assert_eq!(has_waited, is_running);
        let acked = worker.ack_work_item(&token, Some(completion_of("i", 2, "")));
        acked.await.expect_err("the activity is deleted");
        assert!(partitions(&provider).await.is_empty());
        backend.stop().await;
    }
}
