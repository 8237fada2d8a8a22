//! Large messages in delivery while their process is killed or their sender is deleted.

use cdb_emulator::Emulator;
use cdb_provider::documents::OutboxIntent;
use duroxide::providers::ScheduledActivityIdentifier;

use super::*;
use crate::hostile::raw::Raw;

/// An error that the client does not retry.
fn refused() -> Effect {
    Effect::error(400, 0)
}

/// A store that fails on demand, without the reconciler.
async fn failing() -> Option<(Backend, CosmosDBProvider)> {
    Backend::failing(|config| config.reconciler_interval = LOCK).await
}

fn emulator(backend: &Backend) -> &Emulator {
    backend.emulator().expect("checked before")
}

/// Commits a turn of "sender" that starts "child" with a large input.
async fn send_large(provider: &CosmosDBProvider) {
    send(provider, start("child", text(2_400_000))).await;
}

/// Checks that the next turn has the message of [`send_large`].
async fn receives_large(provider: &CosmosDBProvider) {
    let (item, ..) = next_turn(provider, LOCK).await;
    assert_eq!(item.history_error, None);
    let is_same = item.messages == [start("child", text(2_400_000))];
    assert!(is_same, "the message has changed");
}

/// Commits a turn of "sender" that sends this message.
async fn send(provider: &CosmosDBProvider, message: WorkItem) {
    enqueue(provider, start("sender", String::new())).await;
    let left = Left {
        events: vec![started("sender", String::new())],
        messages: vec![message],
        metadata: named(),
        ..Left::default()
    };
    let (_, token, _) = next_turn(provider, LOCK).await;
    commit(provider, &token, 1, &left).await;
}

async fn delete_sender(provider: &CosmosDBProvider) {
    let sender = ["sender".to_owned()];
    ok!(provider.delete_instances_atomic(&sender, true));
    assert_eq!(documents(provider, "sender").await, 0);
}

#[tokio::test]
async fn an_undelivered_large_message_of_a_deleted_instance_leaves_no_chunks() {
    let (backend, provider) = or_skip!(failing().await);
    let emulator = emulator(&backend);
    // Its deliveries fail.
    emulator.inject(Fault::always(refused()).on(OperationKind::Bulk));
    let child = start("child", text(2_400_000));
    send(&provider, work_items::child_of("sender", child)).await;
    eventually(async || count::<OutboxIntent>(&provider).await == 1).await;
    assert!(count::<Chunk>(&provider).await >= 3, "its parts wait");
    emulator.clear_faults();
    delete_sender(&provider).await;
    assert_eq!(litter(&provider).await, (0, 0));
    // A delivery by another process finds the trace.
    assert!(
        !finds_turn(&provider, LOCK, Duration::ZERO).await,
        "nothing arrives"
    );
    backend.stop().await;
}

#[tokio::test]
async fn an_undelivered_large_message_to_a_detached_instance_is_delivered_at_deletion() {
    let (backend, provider) = or_skip!(failing().await);
    let emulator = emulator(&backend);
    emulator.inject(Fault::always(refused()).on(OperationKind::Bulk));
    send_large(&provider).await;
    eventually(async || count::<OutboxIntent>(&provider).await == 1).await;
    emulator.clear_faults();
    delete_sender(&provider).await;
    receives_large(&provider).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_delivered_large_message_of_a_deleted_instance_is_complete() {
    let (backend, provider) = or_skip!(failing().await);
    let emulator = emulator(&backend);
    // The message is delivered, but the sender cannot record it.
    emulator.inject(Fault::always(refused()).on(OperationKind::Bulk).after(1));
    send_large(&provider).await;
    let (item, token, _) = next_turn(&provider, LOCK).await;
    assert_eq!(item.instance, "child");
    assert_eq!(count::<OutboxIntent>(&provider).await, 1);
    ok!(provider.abandon_orchestration_item(&token, None, true));
    emulator.clear_faults();
    delete_sender(&provider).await;
    let fresh = backend.provider().await;
    receives_large(&fresh).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_damaged_delivered_message_does_not_block_deletion_of_its_sender() {
    let (backend, provider) = or_skip!(failing().await);
    let emulator = emulator(&backend);
    // Delivered, but the sender does not get to note it.
    emulator.inject(Fault::always(refused()).on(OperationKind::Bulk).after(1));
    send_large(&provider).await;
    eventually(async || documents(&provider, "child").await > 0).await;
    assert_eq!(count::<OutboxIntent>(&provider).await, 1);
    emulator.clear_faults();
    let raw = Raw::on(emulator, provider.container().name());
    raw.damage("child", "orch_queue", |message| {
        message["attemptCount"] = "many".into();
    })
    .await;
    delete_sender(&provider).await;
    assert!(litter(&provider).await.0 >= 3, "its parts are the child's");
    let child = ["child".to_owned()];
    ok!(provider.delete_instances_atomic(&child, true));
    assert_eq!(litter(&provider).await, (0, 0));
    backend.stop().await;
}

#[tokio::test]
async fn chunks_of_a_missing_commit_are_deleted_with_their_instance() {
    let (backend, provider) = or_skip!(failing().await);
    let emulator = emulator(&backend);
    enqueue(&provider, start("sender", String::new())).await;
    let (_, token, _) = next_turn(&provider, LOCK).await;
    let unavailable = Effect::error(503, 0);
    emulator.reset_requests();
    emulator.inject(Fault::always(unavailable).on(OperationKind::Batch));
    let left = spilled("sender");
    let heir = backend.provider().await;
    // The process ends after writing all chunks and before the commit.
    let commit_was_sent = || {
        emulator
            .requests()
            .counts
            .contains_key(&OperationKind::Batch)
    };
    tokio::select! {
        () = commit(&provider, &token, 1, &left) => panic!("it is committed"),
        () = eventually(async || commit_was_sent()) => {}
    }
    assert!(litter(&heir).await.0 > 3, "the parts are written");
    drop(provider);
    emulator.clear_faults();
    delete_sender(&heir).await;
    assert_eq!(litter(&heir).await, (0, 0), "those for the child too");
    backend.stop().await;
}

/// A turn of "sender" that schedules three activities, the last of which is large.
fn three_activities() -> Left {
    let inputs = [String::new(), String::new(), text(2_400_000)];
    let scheduled =
        |(input, id): (&String, u64)| event("sender", id, work_items::scheduled("Work", &**input));
    let mut events = vec![started("sender", String::new())];
    events.extend(inputs.iter().zip(2..).map(scheduled));
    let activities = inputs.iter().zip(2..);
    Left {
        events,
        activities: activities
            .map(|(input, id)| activity("sender", id, input.clone()))
            .collect(),
        metadata: named(),
        ..Left::default()
    }
}

/// An event for "sender".
fn enough() -> WorkItem {
    work_items::event_of("sender", "Enough", "")
}

/// Commits a turn that cancels the first `count` activities.
async fn cancel(provider: &CosmosDBProvider, token: &str, activities: u64) {
    let cancelled = (2..2 + activities).map(|activity_id| ScheduledActivityIdentifier {
        instance: "sender".to_owned(),
        execution_id: 1,
        activity_id,
    });
    let cancelled = cancelled.collect();
    let committed =
        provider.ack_orchestration_item(token, 1, vec![], vec![], vec![], named(), cancelled);
    committed.await.expect("the commit");
}

#[tokio::test]
async fn cancelled_activities_are_deleted_although_the_process_was_killed_after_the_commit() {
    let backend = Backend::start().await;
    let emulator = or_skip!(backend.emulator(), "only the emulator fails on demand");
    let (killed, other) = (backend.provider().await, backend.provider().await);
    let gate = count::<WorkerItem>(&other).await;
    enqueue(&killed, start("sender", String::new())).await;
    turn(&killed, three_activities()).await;
    // Another process runs one of them.
    let (_, running, _) = next_activity(&other, LOCK, None).await;
    enqueue(&killed, enough()).await;
    let (_, token, _) = next_turn(&killed, LOCK).await;
    // The commit is the last thing that succeeds.
    let lost = || Fault::always(Effect::DropRequest);
    emulator.inject(lost().on(OperationKind::Bulk));
    emulator.inject(lost().on(OperationKind::Batch).after(1));
    cancel(&killed, &token, 3).await;
    drop(killed);
    let (parts, _) = litter(&other).await;
    // The commit has deleted those with small inputs.
    assert_eq!(count::<WorkerItem>(&other).await, gate + 1);
    emulator.clear_faults();
    eventually(async || count::<WorkerItem>(&other).await == gate).await;
    // The chunks of the large input, which the history keeps.
    eventually(async || matches!(litter(&other).await, (left, 0) if left < parts)).await;
    eventually(async || count::<OutboxIntent>(&other).await == 0).await;
    let renewed = other.renew_work_item_lock(&running, LOCK).await;
    renewed.expect_err("its worker hears of it");
    backend.stop().await;
}

#[tokio::test]
async fn activities_delivered_after_their_cancellation_are_deleted() {
    let (backend, provider) = or_skip!(failing().await);
    let emulator = emulator(&backend);
    let gate = count::<WorkerItem>(&provider).await;
    enqueue(&provider, start("sender", String::new())).await;
    // More than a batch holds: they leave the commit as an intent, whose delivery fails.
    let mut left = three_activities();
    let small = (5..155).map(|id| activity("sender", id, String::new()));
    left.activities.extend(small);
    let (_, token, _) = next_turn(&provider, LOCK).await;
    let refused = Fault::always(refused()).on(OperationKind::Batch);
    emulator.inject(refused.after(1));
    commit(&provider, &token, 1, &left).await;
    assert_eq!(count::<WorkerItem>(&provider).await, gate);
    emulator.clear_faults();
    enqueue(&provider, enough()).await;
    let (_, token, _) = next_turn(&provider, LOCK).await;
    cancel(&provider, &token, 153).await;
    assert!(count::<OutboxIntent>(&provider).await >= 2, "both wait");
    // Now the reconciler delivers.
    let quick = Duration::from_millis(200);
    let other = backend.provider_with(|config| config.reconciler_interval = quick);
    let other = other.await;
    eventually(async || count::<OutboxIntent>(&other).await == 0).await;
    assert_eq!(
        count::<WorkerItem>(&other).await,
        gate,
        "none is left to run"
    );
    backend.stop().await;
}
