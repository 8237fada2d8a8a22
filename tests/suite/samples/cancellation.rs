//! Cancellation of an instance, of its activities and of its children.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, AppErrorKind, ErrorDetails, OrchestrationContext, OrchestrationRegistry,
};

use crate::harness::{TestEnv, eventually, no_activities};

/// Returns the reason of the cancellation, if the instance was cancelled.
fn reason_of(ended: &Result<String, ErrorDetails>) -> Option<&str> {
    match ended {
        Err(ErrorDetails::Application {
            kind: AppErrorKind::Cancelled { reason },
            ..
        }) => Some(reason),
        _ => None,
    }
}

fn waiting() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Never").await)
        })
        .register("Parent", async |ctx: OrchestrationContext, _: String| {
            let child = ctx.schedule_sub_orchestration_with_id("Wait", "child", "");
            child.await
        })
        .register("End", |_: OrchestrationContext, _: String| async move {
            Ok("done".to_owned())
        })
        .build()
}

#[tokio::test]
async fn a_waiting_instance_fails_with_the_reason_given() {
    let env = TestEnv::start(no_activities(), waiting()).await;
    let client = &env.client;
    env.begin("wait", "Wait", "").await;
    env.until_subscribed("wait", "Never").await;
    ok!(client.cancel_instance("wait", "no longer needed"));
    let ended = env.end_of("wait").await;
    assert_eq!(reason_of(&ended), Some("no longer needed"), "{ended:?}");
    env.stop().await;
}

#[tokio::test]
async fn children_are_cancelled_with_their_parent() {
    let env = TestEnv::start(no_activities(), waiting()).await;
    let client = &env.client;
    env.begin("parent", "Parent", "").await;
    eventually(async || {
        let found = env.client.list_all_instances().await.expect("a list");
        found.iter().any(|instance| instance == "child")
    })
    .await;
    env.until_subscribed("child", "Never").await;
    ok!(client.cancel_instance("parent", "closing"));
    assert_eq!(reason_of(&env.end_of("parent").await), Some("closing"));
    assert!(reason_of(&env.end_of("child").await).is_some());
    env.stop().await;
}

#[tokio::test]
async fn cancelling_an_ended_or_missing_instance_changes_nothing() {
    let env = TestEnv::start(no_activities(), waiting()).await;
    assert_eq!(env.run("end", "End", "").await.as_deref(), Ok("done"));
    for instance in ["end", "never started"] {
        ok!(env.client.cancel_instance(instance, "late"));
    }
    // The queue is in order, so the runtime has seen the earlier requests.
    assert_eq!(env.run("other", "End", "").await.as_deref(), Ok("done"));
    assert_eq!(env.end_of("end").await.as_deref(), Ok("done"));
    let instances = env.client.list_all_instances().await.expect("a list");
    assert_eq!(instances.len(), 2, "{instances:?}");
    env.stop().await;
}

/// Counts the starts and the cancellations of an activity.
#[derive(Clone, Default)]
struct Endless {
    begun: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

impl Endless {
    /// The activity, which runs until it is cancelled.
    fn registry(&self) -> ActivityRegistry {
        let counts = self.clone();
        ActivityRegistry::builder()
            .register("Endless", move |ctx: ActivityContext, _: String| {
                let counts = counts.clone();
                async move {
                    counts.begun.fetch_add(1, Ordering::SeqCst);
                    ctx.cancelled().await;
                    counts.cancelled.fetch_add(1, Ordering::SeqCst);
                    Ok("cancelled".to_owned())
                }
            })
            .build()
    }

    async fn until_begun(&self) {
        eventually(async || self.begun.load(Ordering::SeqCst) > 0).await;
    }

    async fn until_cancelled(&self) {
        eventually(async || self.cancelled.load(Ordering::SeqCst) > 0).await;
    }
}

/// Short locks, because a renewal detects the cancellation, after half the lock time.
fn short_locks() -> RuntimeOptions {
    RuntimeOptions {
        worker_lock_timeout: Duration::from_secs(6),
        ..RuntimeOptions::default()
    }
}

#[tokio::test]
async fn a_running_activity_is_notified_of_the_cancellation() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Run", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Endless", "").await
        })
        .build();
    let endless = Endless::default();
    let mut env = TestEnv::without_runtime().await;
    let activities = endless.registry();
    env.join(activities, orchestrations, short_locks()).await;
    let client = &env.client;
    env.begin("run", "Run", "").await;
    endless.until_begun().await;
    client.cancel_instance("run", "stop").await.expect("cancel");
    assert_eq!(reason_of(&env.end_of("run").await), Some("stop"));
    endless.until_cancelled().await;
    env.stop().await;
}

#[tokio::test]
async fn the_loser_of_a_race_is_cancelled_while_its_instance_goes_on() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Race", |ctx: OrchestrationContext, _: String| async move {
            let slow = ctx.schedule_activity("Endless", "");
            let enough = ctx.schedule_wait("Enough");
            ctx.select2(slow, enough).await;
            Ok(ctx.schedule_wait("GoOn").await)
        })
        .build();
    let endless = Endless::default();
    let mut env = TestEnv::without_runtime().await;
    let activities = endless.registry();
    env.join(activities, orchestrations, short_locks()).await;
    env.begin("race", "Race", "").await;
    endless.until_begun().await;
    env.raise("race", "Enough", "").await;
    endless.until_cancelled().await;
    env.until_subscribed("race", "GoOn").await;
    env.raise("race", "GoOn", "on").await;
    assert_eq!(env.end_of("race").await.as_deref(), Ok("on"));
    env.stop().await;
}
