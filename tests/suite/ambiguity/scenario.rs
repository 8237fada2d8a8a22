//! Small workloads with known results, which together make every kind of write that a runtime
//! makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cdb_provider::TreeScope;
use duroxide::providers::{ProviderAdmin as _, ProviderError, PruneOptions};
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, Wait};

/// A workload and its expected result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scenario {
    /// One activity.
    Hello,
    /// Five activities at once.
    FanOut,
    /// Two children with an activity each.
    Parent,
    /// Three executions, each with an activity; the old ones are pruned.
    Again,
    /// An event, raised once.
    Event,
    /// Three queued events.
    Queue,
    /// A parent is cancelled while its child waits and its activity runs.
    Cancel,
    /// Two activities on a session.
    Session,
    /// Values set, cleared, and carried into a second execution.
    KeyValue,
    /// A timer.
    Timer,
    /// A detached orchestration.
    Detached,
    /// A tree is deleted when it has ended.
    Delete,
    /// A tree is deleted while it runs, until that succeeds.
    ForcedDelete,
    /// A tree is paused and resumed, each until it succeeds.
    Pause,
}

/// The number of activity runs.
pub(super) type Runs = Arc<AtomicUsize>;

impl Scenario {
    /// Plays the scenario from the start to the right result.
    pub(super) async fn play(self, env: &TestEnv) {
        let id = "main";
        match self {
            Self::Hello => expect(env, id, "Hello", "1").await,
            Self::FanOut => expect(env, id, "FanOut", "0+1+2+3+4").await,
            Self::Parent => expect(env, id, "Parent", "1+1").await,
            Self::Timer => expect(env, id, "Timer", "later").await,
            Self::Session => expect(env, id, "Session", "a+b").await,
            Self::Again => again(env, id).await,
            Self::Event => event(env, id).await,
            Self::Queue => queue(env, id).await,
            Self::Cancel => cancel(env, id).await,
            Self::KeyValue => key_value(env, id).await,
            Self::Pause => pause(env, id).await,
            Self::ForcedDelete => delete_by_force(env, id).await,
            Self::Detached => {
                expect(env, id, "Detached", "sent").await;
                assert_eq!(env.end_of("detached").await.as_deref(), Ok("1"));
            }
            Self::Delete => {
                expect(env, id, "Parent", "1+1").await;
                let deleted = ok!(env.client.delete_instance(id, false));
                assert_eq!(deleted.instances_deleted, 3, "{deleted:?}");
                assert_eq!(deleted.executions_deleted, 3, "{deleted:?}");
            }
        }
    }

    /// Returns how often its activities run without faults. `None` if a cancellation decides.
    pub(super) fn runs(self) -> Option<usize> {
        match self {
            Self::Hello | Self::Detached | Self::Pause => Some(1),
            Self::FanOut => Some(5),
            Self::Again => Some(3),
            Self::Parent | Self::Delete | Self::Session => Some(2),
            Self::Event | Self::Queue | Self::KeyValue | Self::Timer | Self::ForcedDelete => {
                Some(0)
            }
            Self::Cancel => None,
        }
    }
}

async fn expect(env: &TestEnv, id: &str, orchestration: &str, output: &str) {
    let ended = env.run(id, orchestration, "1").await;
    assert_eq!(ended.as_deref(), Ok(output));
}

async fn again(env: &TestEnv, id: &str) {
    expect(env, id, "Again", "3").await;
    let options = PruneOptions {
        keep_last: Some(1),
        ..PruneOptions::default()
    };
    let pruned = ok!(env.client.prune_executions(id, options));
    assert_eq!(pruned.executions_deleted, 2, "{pruned:?}");
}

async fn event(env: &TestEnv, id: &str) {
    env.begin(id, "Event", "").await;
    env.until_subscribed(id, "Go").await;
    env.raise(id, "Go", "now").await;
    assert_eq!(env.end_of(id).await.as_deref(), Ok("now"));
    let history = env.history(id).await;
    let is_event = |kind: &&EventKind| matches!(kind, EventKind::ExternalEvent { .. });
    let events = history.iter().filter(is_event).count();
    assert_eq!(events, 1, "raised once");
}

async fn queue(env: &TestEnv, id: &str) {
    let client = &env.client;
    env.begin(id, "Queue", "").await;
    env.until(id, |kind| matches!(kind, EventKind::QueueSubscribed { .. }))
        .await;
    for message in ["a", "b", "end"] {
        ok!(client.enqueue_event(id, "Queue", message));
    }
    assert_eq!(env.end_of(id).await.as_deref(), Ok("a+b"));
}

async fn cancel(env: &TestEnv, id: &str) {
    let client = &env.client;
    env.begin(id, "Wait", "").await;
    env.until_subscribed("child", "Go").await;
    ok!(client.cancel_instance(id, "enough"));
    for instance in [id, "child"] {
        let ended = env.end_of(instance).await;
        assert!(ended.is_err(), "{ended:?}");
    }
}

async fn pause(env: &TestEnv, id: &str) {
    let (provider, tree) = (&env.provider, TreeScope::Tree);
    env.begin(id, "Above", "").await;
    env.until_subscribed("child", "Go").await;
    until_done(async || provider.pause(id, tree, "ada").await.map(drop)).await;
    env.raise("child", "Go", "now").await;
    until_done(async || provider.resume(id, tree).await.map(drop)).await;
    assert_eq!(env.end_of(id).await.as_deref(), Ok("now"));
}

async fn delete_by_force(env: &TestEnv, id: &str) {
    env.begin(id, "Above", "").await;
    env.until_subscribed("child", "Go").await;
    until_done(
        async || match env.provider.delete_instance(id, true).await {
            // An earlier attempt has deleted the root, the last of the tree.
            Err(error) if error.message.contains("not found") => Ok(()),
            deleted => deleted.map(drop),
        },
    )
    .await;
    for instance in [id, "child"] {
        let found = env.provider.get_instance_info(instance).await;
        assert!(found.is_err(), "{found:?}");
    }
}

/// Repeats a change of an operator whose requests fail.
async fn until_done(mut change: impl AsyncFnMut() -> Result<(), ProviderError>) {
    let mut wait = Wait::begin();
    while let Err(error) = change().await {
        assert!(error.is_retryable() && !wait.is_over(), "{error}");
    }
}

async fn key_value(env: &TestEnv, id: &str) {
    expect(env, id, "KeyValue", "kept").await;
    let values = env.client.get_kv_all_values(id).await;
    let values = values.expect("it can be read");
    let mut values: Vec<(&str, &str)> = values
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    values.sort_unstable();
    assert_eq!(values, [("changed", "2"), ("kept", "1")]);
}

/// Starts one runtime, whose locks last for `lock`.
pub(super) async fn runtime(env: &mut TestEnv, runs: &Runs, lock: Duration) {
    let options = RuntimeOptions {
        orchestrator_lock_timeout: lock,
        worker_lock_timeout: lock,
        activity_cancellation_grace_period: Duration::from_millis(100),
        ..RuntimeOptions::default()
    };
    env.join(activities(runs), orchestrations(), options).await;
}

fn activities(runs: &Runs) -> ActivityRegistry {
    let runs = runs.clone();
    ActivityRegistry::builder()
        .register("Echo", move |_: ActivityContext, input: String| {
            runs.fetch_add(1, Ordering::Relaxed);
            async move { Ok(input) }
        })
        .register("Endless", |ctx: ActivityContext, _: String| async move {
            ctx.cancelled().await;
            Err("cancelled".to_owned())
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Hello", async |ctx: OrchestrationContext, input: String| {
            ctx.schedule_activity("Echo", input).await
        })
        .register("FanOut", async |ctx: OrchestrationContext, _: String| {
            let all = (0..5).map(|n| ctx.schedule_activity("Echo", n.to_string()));
            sum(ctx.join(all.collect()).await)
        })
        .register(
            "Parent",
            async |ctx: OrchestrationContext, input: String| {
                let all = (0..2).map(|_| ctx.schedule_sub_orchestration("Hello", &*input));
                sum(ctx.join(all.collect()).await)
            },
        )
        .register("Again", run_again)
        .register("Event", |ctx: OrchestrationContext, _: String| async move {
            let data = ctx.schedule_wait("Go").await;
            // A second event would arrive now.
            ctx.schedule_timer(Duration::from_millis(200)).await;
            Ok(data)
        })
        .register("Above", |ctx: OrchestrationContext, _: String| async move {
            let child = ctx.schedule_sub_orchestration_with_id("Event", "child", "");
            ctx.schedule_activity("Echo", child.await?).await
        })
        .register("Queue", run_queue)
        .register("Wait", run_wait)
        .register("Session", async |ctx: OrchestrationContext, _: String| {
            let mut places = Vec::new();
            for place in ["a", "b"] {
                places.push(ctx.schedule_activity_on_session("Echo", place, "s").await);
            }
            sum(places)
        })
        .register("KeyValue", run_key_value)
        .register("Timer", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(Duration::from_millis(50)).await;
            Ok("later".to_owned())
        })
        .register(
            "Detached",
            async |ctx: OrchestrationContext, input: String| {
                ctx.schedule_orchestration("Hello", "detached", input);
                Ok("sent".to_owned())
            },
        )
        .build()
}

fn sum(results: Vec<Result<String, String>>) -> Result<String, String> {
    let results: Result<Vec<String>, String> = results.into_iter().collect();
    Ok(results?.join("+"))
}

async fn run_again(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let step = ctx.schedule_activity("Echo", input).await?;
    let step: u32 = step.parse().map_err(|_| "no number".to_owned())?;
    if step < 3 {
        return ctx.continue_as_new((step + 1).to_string()).await;
    }
    Ok(step.to_string())
}

/// Waits for its child, while an activity runs.
async fn run_wait(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input == "child" {
        return Ok(ctx.schedule_wait("Go").await);
    }
    let activity = ctx.schedule_activity("Endless", "");
    let child = ctx.schedule_sub_orchestration_with_id("Wait", "child", "child");
    sum(ctx.join(vec![activity, child]).await)
}

/// `kept` and `changed` are set by the first execution, `gone` is cleared by the second.
async fn run_key_value(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    if ctx.execution_id() == 1 {
        for (key, value) in [("kept", "1"), ("changed", "1"), ("gone", "1")] {
            ctx.set_kv_value(key, value);
        }
        ctx.schedule_timer(Duration::from_millis(1)).await;
        return ctx.continue_as_new("").await;
    }
    ctx.set_kv_value("changed", "2");
    ctx.clear_kv_value("gone");
    ctx.schedule_timer(Duration::from_millis(1)).await;
    Ok("kept".to_owned())
}

async fn run_queue(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut taken = Vec::new();
    loop {
        let message = ctx.dequeue_event("Queue").await;
        if message == "end" {
            return Ok(taken.join("+"));
        }
        taken.push(message);
    }
}
