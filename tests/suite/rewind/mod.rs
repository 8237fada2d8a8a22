//! Rewinding failed instances: after the cause is removed they reach the right end, and no completed
//! activity runs again.

mod forks;
mod pruned;
mod queue_order;
mod shapes;

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::documents::{Execution, ExecutionKey};
use cdb_provider::payload::Encryption;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider as _, ProviderAdmin as _, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};

use crate::harness::{TestEnv, long_locks, next_turn};
use crate::network::{READ, on_network};
use crate::several::{self, enqueue};
use crate::work_items::{child_scheduled, ending, started};
use shapes::{SHAPES, World, expected};

async fn start(env: &TestEnv, instance: &str, shape: &str) {
    env.begin(instance, "Shaped", shape).await;
    if shape == "events" {
        ok!(env.client.enqueue_event(instance, "Queue", "first"));
        env.until_subscribed(instance, "Event").await;
        env.raise(instance, "Event", "raised").await;
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
            ok!(env.client.enqueue_event(&instance, "Queue", "second"));
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
    let rewound = ok!(env.provider.rewind("i", "ada"));
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
    let rewound = ok!(env.provider.rewind("i", "ada"));
    assert_eq!(rewound, planned);
    // Still broken: it fails again, and is rewound again.
    env.end_of("i").await.expect_err("it is broken");
    world.repair();
    ok!(env.provider.rewind("i", "ada"));
    assert_eq!(env.end_of("i").await.as_deref(), Ok("one two three"));

    assert_eq!(env.provider.list_executions("i").await, Ok(vec![1, 2, 3]));
    let first = env.provider.read_with_execution("i", 1).await;
    assert_eq!(first.as_deref(), Ok(&*failed));
    let key = ExecutionKey::new("i", 1);
    let stored = ok!(env.provider.container().read(&key));
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
        ok!(env.provider.rewind(instance, "ada"));
        env.end_of(instance).await.expect_err("it is still broken");
    }
    world.repair();
    for (instance, shape) in [("i", "values"), ("j", "again")] {
        ok!(env.provider.rewind(instance, "ada"));
        let end = env.end_of(instance).await;
        assert_eq!(end.as_deref(), Ok(expected(shape)));
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_kept_events_clear_do_not_come_back() {
    let world = World::default();
    let env = TestEnv::start(world.activities(), world.orchestrations()).await;
    let failed = env.run("i", "Shaped", "cleared").await;
    failed.expect_err("it is broken");
    world.repair();
    ok!(env.provider.rewind("i", "ada"));
    assert_eq!(env.end_of("i").await.as_deref(), Ok(expected("cleared")));
    let value = env.client.get_kv_value("i", "from").await;
    assert_eq!(value.expect("the values"), None);
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
    let emulator = or_skip!(env.emulator(), "only the emulator fails on demand");
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
    ok!(env.provider.rewind("i", "ada"));
    assert_eq!(env.end_of("i").await.as_deref(), Ok(expected("child-3")));
    world.check_completed_once();
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_concurrent_rewinds_is_refused() {
    let world = World::default();
    let env = TestEnv::start(world.activities(), world.orchestrations()).await;
    env.run("i", "Shaped", "at once")
        .await
        .expect_err("it is broken");
    let Some(emulator) = env.emulator() else {
        println!("skipped: only the emulator delays on demand");
        return env.stop().await;
    };
    // One of them locks the instance when the execution of the other one has failed again.
    let slow = Effect::Delay(Duration::from_secs(1).into());
    emulator.inject(Fault::once(slow).on(OperationKind::Patch));
    let rewind = |by| env.provider.rewind("i", by);
    let (first, second) = tokio::join!(rewind("ada"), rewind("bob"));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let refused = first.err().or(second.err()).expect("one is refused");
    assert!(refused.message.contains("`i` has changed"), "{refused}");
    env.stop().await;
}

/// Commits the next turn. It starts children, then the instance fails.
async fn fail_next(provider: &CosmosDBProvider, children: u64) {
    fail_with(provider, children, &[]).await;
}

/// Commits the next turn. The children that these events scheduled have failed, others start, then
/// the instance fails.
async fn fail_with(provider: &CosmosDBProvider, children: u64, failed: &[u64]) {
    let (item, token, _) = next_turn(provider, Duration::from_secs(60)).await;
    let fired = EventKind::TimerFired { fire_at_ms: 1 };
    let details = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: "broken".to_owned(),
        retryable: false,
    };
    let child = |number| child_scheduled("Wait", &format!("sub::{number}"));
    let ended = EventKind::SubOrchestrationFailed {
        details: details.clone(),
    };
    let ended = failed.iter().map(|&source| (Some(source), ended.clone()));
    let mut kinds = Vec::from_iter(item.history.is_empty().then(|| (None, started("Wait", ""))));
    kinds.extend(ended);
    kinds.extend((0..children).map(|number| (None, child(number))));
    let failed = EventKind::OrchestrationFailed { details };
    kinds.extend([(None, fired), (None, failed)]);
    let event = |((source, kind), id)| {
        Event::with_event_id(id, item.instance.clone(), item.execution_id, source, kind)
    };
    let first = item.history.len() as u64 + 1;
    let events = kinds.into_iter().zip(first..).map(event).collect();
    let mut messages = item.messages.iter();
    let parent = messages.find_map(|message| match message {
        WorkItem::StartOrchestration {
            parent_instance, ..
        } => parent_instance.clone(),
        _ => None,
    });
    let metadata = ExecutionMetadata {
        parent_instance_id: parent,
        ..ending("Failed")
    };
    let execution = item.execution_id;
    provider
        .ack_orchestration_item(&token, execution, events, vec![], vec![], metadata, vec![])
        .await
        .expect("the turn is committed");
}

#[tokio::test(start_paused = true)]
async fn a_missing_child_of_a_rewound_child_reports_to_it() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    enqueue(&provider, several::start("i")).await;
    fail_next(&provider, 1).await;
    let rewound = provider.rewind("i", "ada").await;
    rewound.expect("it is rewound, and starts its child");
    fail_next(&provider, 1).await;
    enqueue(&provider, several::event("i")).await;
    fail_next(&provider, 0).await;
    let rewound = provider.rewind("i", "ada").await;
    let rewound = rewound.expect("it is rewound with its child");
    assert_eq!((rewound.execution, rewound.children[0].execution), (3, 2));
    let (item, _, _) = next_turn(&provider, Duration::from_secs(60)).await;
    let [
        WorkItem::StartOrchestration {
            instance,
            parent_execution_id,
            ..
        },
    ] = &item.messages[..]
    else {
        panic!("{:?}", item.messages);
    };
    assert_eq!(instance, "i::sub::0::sub::0");
    assert_eq!(*parent_execution_id, Some(2));
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_whose_failed_child_was_deleted_is_refused() {
    let world = World::default();
    let env = TestEnv::start(world.activities(), world.orchestrations()).await;
    let failed = env.run("i", "Shaped", "child-2").await;
    failed.expect_err("it is broken");
    world.repair();
    let grandchild = ["i::sub::4::sub::4".to_owned()];
    ok!(env.provider.delete_instances_atomic(&grandchild, false));
    let planned = env.provider.plan_rewind("i").await;
    let rewound = env.provider.rewind("i", "ada").await;
    for refused in [planned, rewound] {
        let refused = refused.expect_err("its activities would run again");
        let expected = "child `i::sub::4::sub::4` was deleted after its failure";
        assert!(refused.message.contains(expected), "{refused}");
        assert!(!refused.is_retryable(), "{refused}");
    }
    let child = env.provider.get_instance_info("i::sub::4").await;
    assert_eq!(child.expect("it exists").status, "Failed");
    env.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_tree_is_not_rewound_in_part() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    enqueue(&provider, several::start("i")).await;
    fail_next(&provider, 2).await;
    let rewound = provider.rewind("i", "ada").await;
    rewound.expect("it is rewound, and starts its children");
    fail_next(&provider, 0).await;
    fail_next(&provider, 0).await;
    enqueue(&provider, several::event("i")).await;
    fail_with(&provider, 0, &[2, 3]).await;
    let second = ["i::sub::1".to_owned()];
    ok!(provider.delete_instances_atomic(&second, false));
    let refused = provider
        .rewind("i", "ada")
        .await
        .expect_err("it is refused");
    let expected = "child `i::sub::1` was deleted";
    assert!(refused.message.contains(expected), "{refused}");
    let first = provider.get_instance_info("i::sub::0").await;
    let first = first.expect("it exists");
    assert_eq!((&*first.status, first.current_execution_id), ("Failed", 1));
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rewind_that_reads_many_children_keeps_its_lock() {
    let (backend, network, provider) = or_skip!(on_network().await);
    enqueue(&provider, several::start("i")).await;
    fail_next(&provider, 30).await;
    // 30 children in turn take longer than the lock.
    network.slow_down(READ, Duration::from_secs(4));
    let rewound = provider.rewind("i", "ada").await;
    assert_eq!(rewound.expect("it is rewound").kept, 31);
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_without_the_key_does_not_guess_the_cause() {
    let world = World::default();
    let encryption = Encryption::new("k1", &[1; 32]).expect("a key");
    let codec = Arc::new(encryption);
    let mut env = TestEnv::with_config(|config| config.payload_codec = Some(codec)).await;
    env.join(world.activities(), world.orchestrations(), long_locks())
        .await;
    for shape in ["saga", "chain"] {
        let failed = env.run(shape, "Shaped", shape).await;
        failed.expect_err("it is broken");
    }
    let container = env.provider.container().clone();
    let config = CosmosDBProviderConfig::default();
    let tool = CosmosDBProvider::for_tools(container, &config, None).expect("it opens");
    let refused = tool.plan_rewind("saga").await;
    let refused = refused.expect_err("it cannot read the errors").message;
    assert!(refused.contains("has no `payload_codec`"), "{refused}");
    for (provider, shape, activity) in [
        (&tool, "chain", "Break #6"),
        (&env.provider, "saga", "Break #4"),
    ] {
        let planned = provider.plan_rewind(shape).await.expect("a plan");
        assert_eq!(planned.activities, [activity]);
    }
    env.stop().await;
}
