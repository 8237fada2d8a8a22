//! Runtimes that die: their finished work stays finished, other runtimes take over the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, no_activities};

/// Short, because another runtime waits for the locks of a dead one, and longer than an empty
/// activity takes on a busy machine.
fn short_locks() -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_secs(5),
        worker_lock_timeout: Duration::from_secs(5),
        ..RuntimeOptions::default()
    }
}

#[tokio::test]
async fn an_instance_continues_after_its_runtime_died() {
    let done = Arc::new(AtomicUsize::new(0));
    let activities = || {
        let done = done.clone();
        ActivityRegistry::builder()
            .register("Step", move |_: ActivityContext, _: String| {
                let count = done.fetch_add(1, Ordering::SeqCst) + 1;
                async move { Ok(count.to_string()) }
            })
            .build()
    };
    let orchestrations = || {
        OrchestrationRegistry::builder()
            .register("Work", |ctx: OrchestrationContext, _: String| async move {
                let first = ctx.schedule_activity("Step", "").await?;
                let signal = ctx.schedule_wait("GoOn").await;
                let second = ctx.schedule_activity("Step", "").await?;
                Ok(format!("{first} {signal} {second}"))
            })
            .build()
    };
    let mut env = TestEnv::without_runtime().await;
    env.join(activities(), orchestrations(), short_locks())
        .await;
    let started = env.client.start_orchestration("work", "Work", "").await;
    started.expect("the instance starts");
    env.until_subscribed("work", "GoOn").await;
    env.kill_runtimes().await;
    let raised = env.client.raise_event("work", "GoOn", "on").await;
    raised.expect("the event is taken");
    env.join(activities(), orchestrations(), short_locks())
        .await;
    assert_eq!(env.end_of("work").await.as_deref(), Ok("1 on 2"));
    assert_eq!(done.load(Ordering::SeqCst), 2, "no step is done twice");
    env.stop().await;
}

#[tokio::test]
async fn a_timer_fires_although_the_runtime_that_set_it_died() {
    let orchestrations = || {
        OrchestrationRegistry::builder()
            .register("Sleep", |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_timer(Duration::from_secs(1)).await;
                Ok("awake".to_owned())
            })
            .build()
    };
    let mut env = TestEnv::without_runtime().await;
    let options = short_locks();
    env.join(no_activities(), orchestrations(), options).await;
    let started = env.client.start_orchestration("sleep", "Sleep", "").await;
    started.expect("the instance starts");
    env.until("sleep", |kind| {
        matches!(kind, EventKind::TimerCreated { .. })
    })
    .await;
    env.kill_runtimes().await;
    let options = short_locks();
    env.join(no_activities(), orchestrations(), options).await;
    assert_eq!(env.end_of("sleep").await.as_deref(), Ok("awake"));
    env.stop().await;
}

#[tokio::test]
async fn an_activity_that_died_with_its_worker_runs_again_elsewhere() {
    let orchestrations = || {
        OrchestrationRegistry::builder()
            .register("Work", |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_activity("Step", "").await
            })
            .build()
    };
    let entered = Arc::new(tokio::sync::Notify::new());
    let hanging = {
        let entered = entered.clone();
        ActivityRegistry::builder()
            .register("Step", move |_: ActivityContext, _: String| {
                entered.notify_one();
                std::future::pending::<Result<String, String>>()
            })
            .build()
    };
    let working = ActivityRegistry::builder()
        .register("Step", |_: ActivityContext, _: String| async move {
            Ok("done".to_owned())
        })
        .build();
    let mut env = TestEnv::without_runtime().await;
    env.join(hanging, orchestrations(), short_locks()).await;
    let started = env.client.start_orchestration("work", "Work", "").await;
    started.expect("the instance starts");
    entered.notified().await;
    env.kill_runtimes().await;
    env.join(working, orchestrations(), short_locks()).await;
    assert_eq!(env.end_of("work").await.as_deref(), Ok("done"));
    env.stop().await;
}
