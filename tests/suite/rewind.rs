//! Rewinding failed instances: after the cause is removed they reach the right end, and no completed
//! activity runs again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::documents::{Execution, ExecutionKey};
use cdb_provider::{Fork, Operator};
use duroxide::providers::{Provider as _, ProviderAdmin as _};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, EventKind, OrchestrationContext, OrchestrationRegistry,
    RetryPolicy,
};

use crate::harness::{TestEnv, long_locks};

/// What the activities did, and whether `Break` fails.
#[derive(Clone, Default)]
struct World {
    repaired: Arc<AtomicBool>,
    completed: Arc<Mutex<BTreeMap<(String, String), u32>>>,
}

impl World {
    fn is_broken(&self) -> bool {
        !self.repaired.load(Ordering::SeqCst)
    }

    fn repair(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }

    fn note(&self, ctx: &ActivityContext, input: &str) {
        let key = (ctx.instance_id().to_owned(), input.to_owned());
        let mut completed = self.completed.lock().expect("not poisoned");
        *completed.entry(key).or_default() += 1;
    }

    /// Asserts that each activity has completed once.
    fn check_completed_once(&self) {
        let completed = self.completed.lock().expect("not poisoned");
        let again: Vec<_> = completed.iter().filter(|(_, count)| **count != 1).collect();
        assert!(again.is_empty(), "completed more than once: {again:?}");
    }

    fn activities(&self) -> ActivityRegistry {
        let (work, broken) = (self.clone(), self.clone());
        ActivityRegistry::builder()
            .register("Work", move |ctx: ActivityContext, input: String| {
                let world = work.clone();
                async move {
                    world.note(&ctx, &input);
                    Ok(input)
                }
            })
            .register("Break", move |ctx: ActivityContext, input: String| {
                let world = broken.clone();
                async move {
                    if world.is_broken() {
                        return Err(format!("{input} is broken"));
                    }
                    world.note(&ctx, &input);
                    Ok(input)
                }
            })
            .build()
    }

    fn orchestrations(&self) -> OrchestrationRegistry {
        let world = self.clone();
        let shaped = move |ctx: OrchestrationContext, input: String| {
            let world = world.clone();
            async move { run(&ctx, &world, &input).await }
        };
        OrchestrationRegistry::builder()
            .register("Shaped", shaped)
            .build()
    }
}

/// The shapes of failing orchestrations.
const SHAPES: [&str; 11] = [
    "chain", "retry", "join", "children", "child-3", "again", "values", "session", "events",
    "code", "saga",
];

/// Runs the shape that the input names. Returns the same for every run that succeeds.
async fn run(ctx: &OrchestrationContext, world: &World, input: &str) -> Result<String, String> {
    match input {
        "chain" => {
            let first = ctx.schedule_activity("Work", "one").await?;
            ctx.schedule_timer(Duration::from_millis(1)).await;
            let second = ctx.schedule_activity("Break", "two").await?;
            let third = ctx.schedule_activity("Work", "three").await?;
            Ok(format!("{first} {second} {third}"))
        }
        "retry" => {
            let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed {
                delay: Duration::from_millis(1),
            });
            let first = ctx.schedule_activity("Work", "one").await?;
            let second = ctx.schedule_activity_with_retry("Break", "two", policy);
            Ok(format!("{first} {}", second.await?))
        }
        "join" => {
            let steps = async {
                let first = ctx.schedule_activity("Work", "a").await?;
                let second = ctx.schedule_activity("Work", "b").await?;
                ctx.schedule_timer(Duration::from_millis(20)).await;
                let third = ctx.schedule_activity("Work", "c").await?;
                Ok::<_, String>(format!("{first} {second} {third}"))
            };
            let (broken, steps) = ctx.join2(ctx.schedule_activity("Break", "x"), steps).await;
            Ok(format!("{} {}", broken?, steps?))
        }
        "children" => {
            let first = ctx.schedule_sub_orchestration("Shaped", "session");
            let second = ctx.schedule_sub_orchestration("Shaped", "child-3");
            let third = ctx.schedule_activity("Work", "beside");
            let (first, second, third) = ctx.join3(first, second, third).await;
            Ok(format!("{} {} {}", first?, second?, third?))
        }
        "child-3" | "child-2" | "child-1" => {
            let below = match input {
                "child-3" => "child-2",
                "child-2" => "child-1",
                _ => "chain",
            };
            let first = ctx.schedule_activity("Work", "before").await?;
            let child = ctx.schedule_sub_orchestration("Shaped", below).await?;
            let last = ctx.schedule_activity("Work", "after").await?;
            Ok(format!("{first} ({child}) {last}"))
        }
        "again" => {
            ctx.schedule_activity("Work", "first execution").await?;
            ctx.set_kv_value("from", "the first execution");
            ctx.continue_as_new("again-2").await
        }
        "again-2" => {
            let from = ctx.get_kv_value("from").unwrap_or_default();
            ctx.set_kv_value("from", "the second execution");
            let first = ctx.schedule_activity("Work", "second execution").await?;
            let second = ctx.schedule_activity("Break", "two").await?;
            Ok(format!("{from} {first} {second}"))
        }
        "values" => {
            let before = ctx.get_kv_value("step");
            ctx.set_kv_value("step", "one");
            let first = ctx.schedule_activity("Work", "one").await?;
            let seen = ctx.get_kv_value("step");
            ctx.clear_kv_value("step");
            ctx.set_kv_value("other", &first);
            let second = ctx.schedule_activity("Break", "two").await?;
            Ok(format!(
                "{before:?} {seen:?} {second} {:?}",
                ctx.get_kv_value("other")
            ))
        }
        "session" => {
            let first = ctx.schedule_activity_on_session("Work", "one", "s").await?;
            let second = ctx
                .schedule_activity_on_session("Break", "two", "s")
                .await?;
            Ok(format!("{first} {second}"))
        }
        "events" => {
            let raised = ctx.schedule_wait("Event").await;
            let queued = ctx.dequeue_event("Queue").await;
            let broken = ctx.schedule_activity("Break", "two").await?;
            let later = ctx.dequeue_event("Queue").await;
            Ok(format!("{raised} {queued} {broken} {later}"))
        }
        "code" => {
            let first = ctx.schedule_activity("Work", "one").await?;
            // As a fault of the code that the next deployment mends.
            if world.is_broken() {
                return Err("a fault of the code".to_owned());
            }
            Ok(first)
        }
        "saga" => {
            let first = ctx.schedule_activity("Work", "reserve").await?;
            match ctx.schedule_activity("Break", "charge").await {
                Ok(charged) => Ok(format!("{first} {charged}")),
                Err(error) => {
                    ctx.schedule_activity("Work", "cancel the reservation")
                        .await?;
                    Err(format!("cannot charge: {error}"))
                }
            }
        }
        "at once" => match world.is_broken() {
            true => Err("broken at once".to_owned()),
            false => Ok("in the end".to_owned()),
        },
        other => Err(format!("no shape {other}")),
    }
}

fn expected(shape: &str) -> &'static str {
    match shape {
        "chain" => "one two three",
        "join" => "x a b c",
        "children" => "one two before (before (before (one two three) after) after) after beside",
        "child-3" => "before (before (before (one two three) after) after) after",
        "again" => "the first execution second execution two",
        "values" => "None Some(\"one\") two Some(\"one\")",
        "retry" | "session" => "one two",
        "events" => "raised first two second",
        "code" => "one",
        "saga" => "reserve charge",
        "at once" => "in the end",
        other => panic!("{other}"),
    }
}

fn operator() -> Operator {
    Operator {
        name: "ada".to_owned(),
    }
}

async fn start(env: &TestEnv, instance: &str, shape: &str) {
    let started = env.client.start_orchestration(instance, "Shaped", shape);
    started.await.expect("it starts");
    if shape == "events" {
        let raised = env.client.enqueue_event(instance, "Queue", "first").await;
        raised.expect("it is queued");
        env.until_subscribed(instance, "Event").await;
        let raised = env.client.raise_event(instance, "Event", "raised").await;
        raised.expect("it is raised");
    }
}

/// Fails instances of every shape, rewinds them, and checks their ends.
async fn rewind_all(instances: usize) {
    let world = World::default();
    let mut env = TestEnv::without_runtime().await;
    env.join(world.activities(), world.orchestrations(), long_locks())
        .await;
    let name = |number: usize| format!("i-{number}");
    for number in 0..instances {
        start(&env, &name(number), SHAPES[number % SHAPES.len()]).await;
    }
    for number in 0..instances {
        let failed = env.end_of(&name(number)).await;
        failed.expect_err("it is broken");
    }
    world.repair();
    for number in 0..instances {
        let (instance, shape) = (name(number), SHAPES[number % SHAPES.len()]);
        let rewound = env.provider.rewind(&instance, &operator()).await;
        let rewound = rewound.unwrap_or_else(|error| panic!("{shape}: {error}"));
        assert!(rewound.kept > 0, "{shape}: {rewound:?}");
        if shape == "events" {
            let queued = env.client.enqueue_event(&instance, "Queue", "second").await;
            queued.expect("it is queued");
        }
    }
    for number in 0..instances {
        let shape = SHAPES[number % SHAPES.len()];
        let end = env.end_of(&name(number)).await;
        assert_eq!(end.as_deref(), Ok(expected(shape)), "{shape}");
    }
    world.check_completed_once();
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_instances_of_every_shape_reach_their_end() {
    rewind_all(55).await;
}

/// `cargo nextest run -p cdb-tests --run-ignored only -E 'test(a_thousand_failed_instances)'`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn a_thousand_failed_instances_reach_their_end() {
    rewind_all(1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_first_turn_is_rewound_to_the_start() {
    let world = World::default();
    let env = TestEnv::start(world.activities(), world.orchestrations()).await;
    env.run("i", "Shaped", "at once")
        .await
        .expect_err("it is broken");
    world.repair();
    let rewound = env
        .provider
        .rewind("i", &operator())
        .await
        .expect("it is rewound");
    assert_eq!(
        (rewound.execution, rewound.kept, rewound.messages),
        (2, 0, 1)
    );
    assert_eq!(env.end_of("i").await.as_deref(), Ok("in the end"));
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failed_execution_stays_readable_with_who_rewound_it() {
    let world = World::default();
    let env = TestEnv::start(world.activities(), world.orchestrations()).await;
    env.run("i", "Shaped", "chain")
        .await
        .expect_err("it is broken");
    let failed = env.provider.read("i").await.expect("a history");
    let planned = env.provider.plan_rewind("i").await.expect("a plan");
    assert_eq!(planned.activities, ["Break #6"]);
    let rewound = env
        .provider
        .rewind("i", &operator())
        .await
        .expect("it is rewound");
    assert_eq!(rewound, planned);
    // Still broken: it fails again, and is rewound again.
    env.end_of("i").await.expect_err("it is broken");
    world.repair();
    env.provider
        .rewind("i", &operator())
        .await
        .expect("it is rewound");
    assert_eq!(env.end_of("i").await.as_deref(), Ok("one two three"));

    assert_eq!(env.provider.list_executions("i").await, Ok(vec![1, 2, 3]));
    let first = env.provider.read_with_execution("i", 1).await;
    assert_eq!(first.as_deref(), Ok(&*failed));
    let key = ExecutionKey::new("i", 1_u64);
    let stored = env
        .provider
        .container()
        .read(&key)
        .await
        .expect("it is read");
    let execution: Execution = stored.expect("it exists").document;
    let action = execution.rewound.expect("it was rewound");
    assert_eq!((&*action.by, &*action.what), ("ada", "rewound to 6 events"));
    let refused = env
        .provider
        .rewind("i", &operator())
        .await
        .expect_err("it completed");
    assert!(
        refused.message.contains("is Completed; only failed"),
        "{refused}"
    );
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_rewound_executions_are_undone_each_time() {
    let world = World::default();
    let env = TestEnv::start(world.activities(), world.orchestrations()).await;
    for (instance, shape) in [("i", "values"), ("j", "again")] {
        let failed = env.run(instance, "Shaped", shape).await;
        failed.expect_err("it is broken");
        let rewound = env.provider.rewind(instance, &operator()).await;
        rewound.expect("it is rewound");
        env.end_of(instance).await.expect_err("it is still broken");
    }
    world.repair();
    for (instance, shape) in [("i", "values"), ("j", "again")] {
        let rewound = env.provider.rewind(instance, &operator()).await;
        rewound.expect("it is rewound");
        let end = env.end_of(instance).await;
        assert_eq!(end.as_deref(), Ok(expected(shape)));
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewind_of_a_tree_continues_after_an_interruption() {
    // The operator's program ends after each of the four commits; with and without a runtime that
    // finishes the children in the meantime.
    for (commits, finishes) in [(1, false), (2, true), (3, false), (3, true)] {
        interrupted_after(commits, finishes).await;
    }
}

async fn interrupted_after(commits: u32, finishes: bool) {
    let world = World::default();
    let mut env = TestEnv::start(world.activities(), world.orchestrations()).await;
    let failed = env.run("i", "Shaped", "child-3").await;
    failed.expect_err("it is broken");
    world.repair();
    env.kill_runtimes().await;
    let Some(emulator) = env.emulator() else {
        println!("skipped: only the emulator fails on demand");
        return;
    };
    let refused = Fault::always(Effect::error(400, 0)).on(OperationKind::Batch);
    emulator.inject(refused.after(commits));
    let interrupted = env.provider.rewind("i", &operator()).await;
    interrupted.expect_err("it is interrupted");
    emulator.clear_faults();
    env.join(world.activities(), world.orchestrations(), long_locks())
        .await;
    let leaf = "i::sub::4::sub::4::sub::4";
    let alone = env.provider.rewind(leaf, &operator()).await;
    alone.expect_err("it is rewound with its root");
    if finishes {
        assert_eq!(env.end_of(leaf).await.as_deref(), Ok(expected("chain")));
    }
    let rewound = env.provider.rewind("i", &operator()).await;
    rewound.expect("it is rewound");
    assert_eq!(env.end_of("i").await.as_deref(), Ok(expected("child-3")));
    world.check_completed_once();
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_continues_from_an_event_in_another_instance() {
    let world = World::default();
    world.repair();
    let env = TestEnv::start(world.activities(), world.orchestrations()).await;
    let end = env.run("i", "Shaped", "values").await;
    assert_eq!(end.as_deref(), Ok(expected("values")));
    let history = env.history("i").await;
    let is_break = |kind: &EventKind| matches!(kind, EventKind::ActivityScheduled { name, .. } if name == "Break");
    let events = env.provider.read("i").await.expect("a history");
    let broken = events
        .iter()
        .find(|event| is_break(&event.kind))
        .expect("it ran");
    assert_eq!(history.len(), events.len());
    let fork = |event, new_instance| Fork {
        execution: None,
        event,
        new_instance,
    };
    let forked = env
        .provider
        .fork("i", fork(broken.event_id, "fork"), &operator())
        .await;
    let forked = forked.expect("it is forked");
    assert_eq!(forked.activities, ["Work #3"]);
    assert_eq!(env.end_of("fork").await.as_deref(), Ok(expected("values")));
    let whole = env.provider.fork("i", fork(1, "whole"), &operator()).await;
    assert_eq!(whole.expect("it is forked").kept, 0);
    assert_eq!(env.end_of("whole").await.as_deref(), Ok(expected("values")));
    for (event, new_instance, part) in [
        (99, "other", "has no event 99"),
        (1, "fork", "`fork` exists"),
    ] {
        let refused = env
            .provider
            .fork("i", fork(event, new_instance), &operator())
            .await;
        let refused = refused.expect_err("it cannot").message;
        assert!(refused.contains(part), "{refused}");
    }
    env.stop().await;
}
