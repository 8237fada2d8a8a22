//! Rewinding failed instances: after the cause is removed they reach the right end, and no completed
//! activity runs again.

mod shapes;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::Fork;
use cdb_provider::documents::{Execution, ExecutionKey};
use duroxide::EventKind;
use duroxide::providers::{Provider as _, ProviderAdmin as _};

use crate::harness::{TestEnv, long_locks};
use shapes::{SHAPES, World, expected};

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
        let rewound = env.provider.rewind(&instance, "ada").await;
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
        .rewind("i", "ada")
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
        .rewind("i", "ada")
        .await
        .expect("it is rewound");
    assert_eq!(rewound, planned);
    // Still broken: it fails again, and is rewound again.
    env.end_of("i").await.expect_err("it is broken");
    world.repair();
    env.provider
        .rewind("i", "ada")
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
        .rewind("i", "ada")
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
        let rewound = env.provider.rewind(instance, "ada").await;
        rewound.expect("it is rewound");
        env.end_of(instance).await.expect_err("it is still broken");
    }
    world.repair();
    for (instance, shape) in [("i", "values"), ("j", "again")] {
        let rewound = env.provider.rewind(instance, "ada").await;
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
    let interrupted = env.provider.rewind("i", "ada").await;
    interrupted.expect_err("it is interrupted");
    emulator.clear_faults();
    env.join(world.activities(), world.orchestrations(), long_locks())
        .await;
    let leaf = "i::sub::4::sub::4::sub::4";
    let alone = env.provider.rewind(leaf, "ada").await;
    alone.expect_err("it is rewound with its root");
    if finishes {
        assert_eq!(env.end_of(leaf).await.as_deref(), Ok(expected("chain")));
    }
    let rewound = env.provider.rewind("i", "ada").await;
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
        .fork("i", fork(broken.event_id, "fork"), "ada")
        .await;
    let forked = forked.expect("it is forked");
    assert_eq!(forked.activities, ["Work #3"]);
    assert_eq!(env.end_of("fork").await.as_deref(), Ok(expected("values")));
    let whole = env.provider.fork("i", fork(1, "whole"), "ada").await;
    assert_eq!(whole.expect("it is forked").kept, 0);
    assert_eq!(env.end_of("whole").await.as_deref(), Ok(expected("values")));
    for (event, new_instance, part) in [
        (99, "other", "has no event 99"),
        (1, "fork", "`fork` exists"),
    ] {
        let refused = env
            .provider
            .fork("i", fork(event, new_instance), "ada")
            .await;
        let refused = refused.expect_err("it cannot").message;
        assert!(refused.contains(part), "{refused}");
    }
    env.stop().await;
}
