//! Faults that ended in a lost activity or a lost lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_tests::Backend;
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{World, eventually};
use crate::locks::{activity, completed};

const LOCK: Duration = Duration::from_secs(60);

/// Refuses the next patch for a reason that passes: the rights of an identity are being changed.
fn refuse_next_patch() -> Fault {
    let refused = Effect::Status {
        status: 403,
        substatus: 5302,
        retry_after_ms: None,
    };
    Fault::once(refused).on(OperationKind::Patch)
}

#[tokio::test]
async fn an_activity_whose_renewal_failed_is_given_back_when_it_is_acknowledged_without_a_result() {
    let Some((backend, provider)) = Backend::failing(|_| {}).await else {
        return;
    };
    let emulator = backend.emulator().expect("checked before");
    let enqueued = provider.enqueue_for_worker(activity()).await;
    enqueued.expect("the activity is stored");
    let any = TagFilter::Any;
    let fetched = provider.fetch_work_item(LOCK, Duration::ZERO, None, &any);
    let (_, token, _) = fetched.await.expect("fetch").expect("an activity");
    emulator.inject(refuse_next_patch());
    let renewed = provider.renew_work_item_lock(&token, LOCK).await;
    assert!(renewed.is_err(), "the renewal was refused");
    let ended = provider.ack_work_item(&token, None).await;
    ended.expect("the activity is given back");
    let other = backend.provider().await;
    let fetched = other
        .fetch_work_item(LOCK, Duration::ZERO, None, &any)
        .await;
    let (item, _, attempt) = fetched
        .expect("fetch")
        .expect("the activity is still there");
    assert_eq!((item, attempt), (activity(), 1));
    backend.stop().await;
}

#[tokio::test]
async fn an_activity_whose_renewal_failed_can_still_be_completed() {
    let Some((backend, provider)) = Backend::failing(|_| {}).await else {
        return;
    };
    let emulator = backend.emulator().expect("checked before");
    let enqueued = provider.enqueue_for_worker(activity()).await;
    enqueued.expect("the activity is stored");
    let any = TagFilter::Any;
    let fetched = provider.fetch_work_item(LOCK, Duration::ZERO, None, &any);
    let (_, token, _) = fetched.await.expect("fetch").expect("an activity");
    emulator.inject(refuse_next_patch());
    let renewed = provider.renew_work_item_lock(&token, LOCK).await;
    assert!(renewed.is_err(), "the renewal was refused");
    let ended = provider
        .ack_work_item(&token, Some(completed("late")))
        .await;
    ended.expect("the lock still holds");
    let left = provider.fetch_work_item(LOCK, Duration::ZERO, None, &any);
    assert!(
        left.await.expect("fetch").is_none(),
        "the activity has ended"
    );
    backend.stop().await;
}

/// The first attempt of `Work` runs until it is cancelled, every other one returns its number.
fn cancelled_once(attempts: &Arc<AtomicU32>) -> ActivityRegistry {
    let attempts = Arc::clone(attempts);
    let work = move |ctx: ActivityContext, _: String| {
        let attempt = attempts.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            if attempt == 1 {
                ctx.cancelled().await;
            }
            Ok(attempt.to_string())
        }
    };
    ActivityRegistry::builder().register("Work", work).build()
}

#[tokio::test]
async fn an_orchestration_ends_although_a_renewal_of_its_activity_fails() {
    let mut world = World::without_runtime().await;
    if world.emulator().is_none() {
        println!("skipped: only the emulator fails on demand");
        return world.stop().await;
    }
    let orchestrations = OrchestrationRegistry::builder()
        .register("Flow", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Work", "").await
        })
        .build();
    let options = RuntimeOptions {
        worker_lock_timeout: Duration::from_secs(2),
        ..RuntimeOptions::default()
    };
    let attempts = Arc::default();
    let activities = cancelled_once(&attempts);
    world.join(activities, orchestrations, options).await;
    let started = world.client.start_orchestration("i", "Flow", "");
    started.await.expect("the instance starts");
    eventually(async || attempts.load(Ordering::SeqCst) == 1).await;
    let emulator = world.emulator().expect("checked before");
    emulator.inject(refuse_next_patch());
    assert_eq!(world.end_of("i").await.as_deref(), Ok("2"));
    world.stop().await;
}
