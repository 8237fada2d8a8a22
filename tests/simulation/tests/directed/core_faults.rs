//! The faults that ended in a lost activity or a lost lock, in clusters of real runtimes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_simulation::{NodeSettings, Scenario, ScenarioNode};
use duroxide::providers::{Provider as _, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use tokio::time::{Instant, sleep};

use crate::{output, output_after, settings, start};

/// Delayed starts, which together exceed the memory of a provider.
const DELAYED: usize = 30;
const DELAYED_BYTES: usize = 600 * 1024;

/// Longer than a test.
const RARELY: Duration = Duration::from_secs(1500);

fn delayed_start(number: usize) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: format!("delayed-{number}"),
        orchestration: "Hello".to_owned(),
        version: None,
        input: "x".repeat(DELAYED_BYTES),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// Enqueues delayed starts through a node: more than it keeps in memory.
async fn enqueue_delayed(node: &ScenarioNode, delay: Duration) {
    for number in 0..DELAYED {
        let item = delayed_start(number);
        let enqueued = node.provider.enqueue_for_orchestrator(item, Some(delay));
        enqueued.await.expect("the start is stored");
    }
}

#[test]
fn a_runtime_finds_the_starts_of_another_process_behind_many_delayed_starts() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let node = scenario.node(1, &settings()).await;
        let (_, other) = scenario.client().await;
        enqueue_delayed(&node, Duration::from_secs(7200)).await;
        let begun = Instant::now();
        // Larger than what is left of the memory.
        let input = "y".repeat(DELAYED_BYTES * 3 / 2);
        for number in 0..5 {
            start(&other, &format!("late-{number}"), "Hello", &input).await;
        }
        for number in 0..5 {
            let (_, took) = output_after(&other, &format!("late-{number}"), begun).await;
            assert!(took < Duration::from_secs(20), "late-{number}: {took:?}");
        }
    });
}

#[test]
fn delayed_starts_beyond_the_memory_begin_without_a_poll() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let node = scenario.node(1, &rarely_polling(settings())).await;
        let begun = Instant::now();
        let delay = Duration::from_secs(120);
        enqueue_delayed(&node, delay).await;
        for number in 0..DELAYED {
            let instance = format!("delayed-{number}");
            let (_, took) = output_after(&node.client(), &instance, begun).await;
            assert!(
                took < delay + Duration::from_secs(20),
                "{instance}: {took:?}"
            );
        }
    });
}

/// Settings of a node that polls so rarely that it depends on what it knows.
fn rarely_polling(mut settings: NodeSettings) -> NodeSettings {
    settings.provider.max_poll_interval = RARELY;
    settings.runtime.dispatcher_long_poll_timeout = RARELY;
    settings
}

/// The times when activities begin and end, by name.
type Log = Arc<Mutex<Vec<(String, Instant)>>>;

/// Returns settings of a node with one session at a time. An orchestration runs the activities `A`
/// and `B` on two sessions, and each takes `work`.
fn one_session(log: &Log, work: Duration) -> NodeSettings {
    let log = log.clone();
    let activities = ActivityRegistry::builder()
        .register("Work", move |_: ActivityContext, name: String| {
            let log = log.clone();
            async move {
                let note = |what: &str| {
                    let entry = (format!("{name} {what}"), Instant::now());
                    log.lock().expect("no activity panics").push(entry);
                };
                note("begins");
                sleep(work).await;
                note("ends");
                Ok(String::new())
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Both", |ctx: OrchestrationContext, _: String| async move {
            let first = ctx.schedule_activity_on_session("Work", "A", "1");
            let second = ctx.schedule_activity_on_session("Work", "B", "2");
            ctx.join(vec![first, second]).await;
            Ok("both".to_owned())
        })
        .build();
    let mut settings = NodeSettings::new(orchestrations, activities);
    settings.runtime.worker_concurrency = 2;
    settings.runtime.max_sessions_per_runtime = 1;
    rarely_polling(settings)
}

#[test]
fn a_session_starts_when_the_other_session_of_its_runtime_ends() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let log = Log::default();
        let node = scenario
            .node(1, &one_session(&log, Duration::from_secs(15)))
            .await;
        start(&node.client(), "i", "Both", "").await;
        assert_eq!(output(&node.client(), "i").await, "both");
        let log = log.lock().expect("no activity panics");
        let [_, (first, ended), (second, begun), _] = &log[..] else {
            panic!("{log:?}");
        };
        assert!(
            first.ends_with("ends") && second.ends_with("begins"),
            "{log:?}"
        );
        let waited = begun.duration_since(*ended);
        assert!(waited < Duration::from_secs(1), "{waited:?}");
    });
}

#[test]
fn an_activity_does_not_vanish_when_a_renewal_of_its_lock_fails() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let _node = scenario.node(1, &settings()).await;
        let (_, client) = scenario.client().await;
        start(&client, "i", "Rest", "60").await;
        sleep(Duration::from_secs(20)).await;
        // The renewal after 25 s fails for a reason that the client does not retry. duroxide then
        // cancels the activity, and ends it without a result.
        let refused = Effect::error(403, 1028);
        let refused = Fault::once(refused).on(OperationKind::Patch);
        scenario.emulator().inject(refused);
        assert_eq!(output(&client, "i").await, "60");
    });
}

#[test]
fn an_activity_does_not_vanish_when_the_store_is_away_for_most_of_its_lock() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let node = scenario.node(1, &settings()).await;
        let (_, client) = scenario.client().await;
        start(&client, "i", "Rest", "60").await;
        sleep(Duration::from_secs(3)).await;
        // The renewal after 25 of 30 s gets no answer.
        node.cut_off(Duration::from_secs(28)).await;
        assert_eq!(output(&client, "i").await, "60");
    });
}

#[test]
fn a_throttled_commit_keeps_its_lock_and_costs_no_attempt() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let mut settings = settings();
        settings.runtime.max_attempts = 3;
        let _nodes = [
            scenario.node(1, &settings).await,
            scenario.node(2, &settings).await,
        ];
        let (_, client) = scenario.client().await;
        let throttled = Effect::throttled(Duration::from_millis(5));
        let throttled = Fault::always(throttled).on(OperationKind::Batch);
        let throttled = throttled.lasting(Duration::from_secs(90));
        scenario.emulator().inject(throttled);
        for number in 0..5 {
            start(&client, &format!("hello-{number}"), "Hello", "hello").await;
        }
        for number in 0..5 {
            assert_eq!(output(&client, &format!("hello-{number}")).await, "hello");
        }
    });
}
