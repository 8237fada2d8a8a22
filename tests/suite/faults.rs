//! On a store that refuses, loses and repeats requests, every orchestration ends once with the
//! right result.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, eventually};

const ORCHESTRATIONS: usize = 25;

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Double", |_: ActivityContext, n: String| async move {
            let n: u32 = n.parse().map_err(|_| format!("{n} is no number"))?;
            Ok((n * 2).to_string())
        })
        .build()
}

/// `Parent` adds the results of five children. Each child calls two activities, the second in a new
/// execution.
fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Child", |ctx: OrchestrationContext, n: String| async move {
            let n = ctx.schedule_activity("Double", n).await?;
            ctx.set_kv_value("double", &*n);
            if ctx.execution_id() == 1 {
                return ctx.continue_as_new(n).await;
            }
            Ok(n)
        })
        .register(
            "Parent",
            |ctx: OrchestrationContext, _: String| async move {
                let children =
                    (1..=5).map(|n: u32| ctx.schedule_sub_orchestration("Child", n.to_string()));
                let mut sum = 0;
                for answer in ctx.join(children.collect()).await {
                    sum += answer?.parse::<u32>().map_err(|error| error.to_string())?;
                }
                Ok(sum.to_string())
            },
        )
        .build()
}

/// Two runtimes on one store. `None` on an account, which cannot fail on demand.
async fn two_runtimes() -> Option<TestEnv> {
    let mut env = TestEnv::without_runtime().await;
    if env.emulator().is_none() {
        println!("skipped: only the emulator fails on demand");
        return None;
    }
    for _ in 0..2 {
        let options = RuntimeOptions {
            // A lost answer may leave a lock, and a runtime waits until it expires.
            orchestrator_lock_timeout: Duration::from_secs(5),
            worker_lock_timeout: Duration::from_secs(5),
            // A fault costs an attempt, and the message must not become poison.
            max_attempts: 10_000,
            ..RuntimeOptions::default()
        };
        env.join(activities(), orchestrations(), options).await;
    }
    Some(env)
}

fn emulator(env: &TestEnv) -> &Emulator {
    env.emulator().expect("it was there before")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_when_one_request_in_twenty_fails() {
    let Some(env) = two_runtimes().await else {
        return;
    };
    for n in 0..ORCHESTRATIONS {
        let instance = format!("parent-{n}");
        let started = env.client.start_orchestration(instance, "Parent", "");
        started.await.expect("the instance starts");
    }
    for fault in Fault::in_five_ways(0.05) {
        emulator(&env).inject(fault);
    }
    for n in 0..ORCHESTRATIONS {
        until_ended(&env, &format!("parent-{n}")).await;
    }
    emulator(&env).clear_faults();
    for n in 0..ORCHESTRATIONS {
        let instance = format!("parent-{n}");
        assert_eq!(env.end_of(&instance).await.as_deref(), Ok("60"));
        let history = env.history(&instance).await;
        let count =
            |wanted: fn(&EventKind) -> bool| history.iter().filter(|kind| wanted(kind)).count();
        assert_eq!(
            count(|kind| matches!(kind, EventKind::SubOrchestrationCompleted { .. })),
            5,
            "each child answers once"
        );
        assert_eq!(
            count(|kind| matches!(kind, EventKind::OrchestrationCompleted { .. })),
            1,
            "it ends once"
        );
    }
    let instances = env.client.list_all_instances().await.expect("a list");
    assert_eq!(instances.len(), ORCHESTRATIONS * 6, "parents and children");
    env.stop().await;
}

/// Waits for the end without the client, whose own requests may fail too.
async fn until_ended(env: &TestEnv, instance: &str) {
    eventually(async || {
        let status = env.client.get_orchestration_status(instance).await;
        matches!(
            status,
            Ok(duroxide::OrchestrationStatus::Completed { .. }
                | duroxide::OrchestrationStatus::Failed { .. })
        )
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_is_the_same_when_any_commit_loses_its_answer() {
    let Some(env) = two_runtimes().await else {
        return;
    };
    // Every third batch takes effect and loses its answer.
    let lost = Fault::with_probability(Effect::DropAnswer, 0.33).on(OperationKind::Batch);
    emulator(&env).inject(lost);
    let ended = env.run("parent", "Parent", "").await;
    assert_eq!(ended.as_deref(), Ok("60"));
    emulator(&env).clear_faults();
    let instances = env.client.list_all_instances().await.expect("a list");
    assert_eq!(instances.len(), 6, "{instances:?}");
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_physical_partitions_split_under_load() {
    const PARENTS: usize = 8;
    let Some(env) = two_runtimes().await else {
        return;
    };
    for n in 0..PARENTS {
        let instance = format!("parent-{n}");
        let started = env.client.start_orchestration(instance, "Parent", "");
        started.await.expect("the instance starts");
        // One physical partition becomes five during turns and activities. Children continue the
        // counters of their parents.
        if n % 2 == 1 {
            env.split(&(n / 2).to_string());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    for n in 0..PARENTS {
        let instance = format!("parent-{n}");
        assert_eq!(env.end_of(&instance).await.as_deref(), Ok("60"));
    }
    let instances = env.client.list_all_instances().await.expect("a list");
    assert_eq!(instances.len(), PARENTS * 6, "parents and children");
    env.stop().await;
}
