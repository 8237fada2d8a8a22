//! Unfinished work of every kind in a container, and the expected result of each instance.
//!
//! Depends on duroxide alone: the program that leaves it (`bench/peers`, with `duroxide-cdb`; an
//! example here, with our own provider) and the test that finishes it include this file.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

/// The delay of timers that fire before the work is finished.
const SOON: Duration = Duration::from_secs(60);
/// The delay of timers that never fire.
const IN_A_HUNDRED_YEARS: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How long an instance may take to reach its state.
const PATIENCE: Duration = Duration::from_secs(60);
/// An id that has to be escaped in many places, as far as `duroxide-cdb` can write it: without
/// quotes and in ASCII.
pub(crate) const HOSTILE: &str = "a:b|c~d' %2F,;";
/// The reason of cancelled instances.
pub(crate) const REASON: &str = "no longer needed";

/// The result of an instance once a runtime runs it, with the events that [`EVENTS`] has for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// Its output.
    Returns(&'static str),
    /// A part of its error message.
    Fails(&'static str),
}

/// Every unfinished instance and its result.
pub(crate) const ENDINGS: &[(&str, Ending)] = &[
    ("completed", Ending::Returns("chain of 3")),
    ("failed", Ending::Fails("as it should")),
    ("held", Ending::Returns("first, held second")),
    (HOSTILE, Ending::Returns("first, held second")),
    ("fan", Ending::Returns("0 1 2 3 held 4")),
    ("timed", Ending::Returns("it rang")),
    ("asked", Ending::Returns("asked: in the queue")),
    ("open", Ending::Returns("asked: afterwards")),
    ("letters", Ending::Returns("one, two, three")),
    ("parent", Ending::Returns("parent of asked: afterwards")),
    ("parent::sub::2", Ending::Returns("asked: afterwards")),
    (
        "rounds",
        Ending::Returns("round 3, asked: afterwards, kept 2, noted 3"),
    ),
    ("session", Ending::Returns("first, held second")),
    ("tagged", Ending::Returns("painted")),
    ("answered", Ending::Returns("by hand")),
    ("cancelled", Ending::Fails(REASON)),
    ("far", Ending::Fails(REASON)),
    ("not-started", Ending::Returns("chain of 2")),
    ("turn-lost", Ending::Returns("chain of 1")),
    (
        "parent-undelivered",
        Ending::Returns("parent of asked: afterwards"),
    ),
    ("detaches", Ending::Returns("detached")),
    ("detached", Ending::Returns("chain of 2")),
    (
        "waits-for-child",
        Ending::Returns("parent of asked: of the child"),
    ),
    ("child", Ending::Returns("asked: of the child")),
];

/// Events `answer` that are raised to finish the work: instance and data.
pub(crate) const EVENTS: &[(&str, &str)] = &[
    ("open", "afterwards"),
    ("parent::sub::2", "afterwards"),
    ("parent-undelivered::sub::2", "afterwards"),
    ("rounds", "afterwards"),
];

/// Instances that are cancelled to finish the work.
pub(crate) const CANCELLED: &[&str] = &["far"];

/// The key-value store of the instance `rounds`.
pub(crate) const KEPT: &[(&str, &str)] = &[("kept", "2"), ("noted", "3")];

/// The activities. Those that hold never return.
pub(crate) fn activities(hold: bool) -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move {
            Ok(input)
        })
        .register(
            "Hold",
            move |_: ActivityContext, input: String| async move {
                if hold {
                    pending::<()>().await;
                }
                Ok(format!("held {input}"))
            },
        )
        .register("Paint", |_: ActivityContext, _: String| async move {
            Ok("painted".to_owned())
        })
        .build()
}

/// The orchestrations.
pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Chain", chain)
        .register("Fail", |_: OrchestrationContext, _: String| async move {
            Err::<String, _>("as it should".to_owned())
        })
        .register("Held", |ctx: OrchestrationContext, _: String| async move {
            let first = ctx.schedule_activity("Echo", "first").await?;
            let second = ctx.schedule_activity("Hold", "second").await?;
            Ok(format!("{first}, {second}"))
        })
        .register(
            "Session",
            |ctx: OrchestrationContext, _: String| async move {
                let first = ctx
                    .schedule_activity_on_session("Echo", "first", "desk")
                    .await?;
                let second = ctx
                    .schedule_activity_on_session("Hold", "second", "desk")
                    .await?;
                Ok(format!("{first}, {second}"))
            },
        )
        .register("Fan", fan)
        .register("Timed", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(SOON).await;
            ctx.schedule_activity("Echo", "it rang").await
        })
        .register("Far", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(IN_A_HUNDRED_YEARS).await;
            Ok("too late".to_owned())
        })
        .register("Asked", |ctx: OrchestrationContext, _: String| async move {
            Ok(format!("asked: {}", ctx.schedule_wait("answer").await))
        })
        .register("Letters", letters)
        .register(
            "Parent",
            |ctx: OrchestrationContext, child: String| async move {
                let asked = match child.as_str() {
                    "" => ctx.schedule_sub_orchestration("Asked", ""),
                    child => ctx.schedule_sub_orchestration_with_id("Asked", child, ""),
                };
                Ok(format!("parent of {}", asked.await?))
            },
        )
        .register("Rounds", rounds)
        .register(
            "Tagged",
            |ctx: OrchestrationContext, tag: String| async move {
                ctx.schedule_activity("Paint", "").with_tag(tag).await
            },
        )
        .register(
            "Detaches",
            |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_orchestration("Chain", "detached", "2");
                Ok("detached".to_owned())
            },
        )
        .build()
}

async fn chain(ctx: OrchestrationContext, length: String) -> Result<String, String> {
    for step in 0..length.parse::<u32>().map_err(|error| error.to_string())? {
        ctx.schedule_activity("Echo", step.to_string()).await?;
    }
    Ok(format!("chain of {length}"))
}

async fn fan(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut activities: Vec<_> = (0..4)
        .map(|at: u32| ctx.schedule_activity("Echo", at.to_string()))
        .collect();
    activities.push(ctx.schedule_activity("Hold", "4"));
    let ended: Result<Vec<String>, String> = ctx.join(activities).await.into_iter().collect();
    Ok(ended?.join(" "))
}

async fn letters(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut read = Vec::new();
    for _ in 0..3 {
        read.push(ctx.dequeue_event("letters").await);
    }
    Ok(read.join(", "))
}

async fn rounds(ctx: OrchestrationContext, round: String) -> Result<String, String> {
    let round: u32 = round.parse().map_err(|_| format!("{round} is no number"))?;
    ctx.set_custom_status(format!("round {round}"));
    if round < 3 {
        ctx.set_kv_value("kept", round.to_string());
        return ctx.continue_as_new((round + 1).to_string()).await;
    }
    ctx.set_kv_value("noted", round.to_string());
    let answer = ctx.schedule_wait("answer").await;
    let kept = ctx.get_kv_value("kept").unwrap_or_default();
    let noted = ctx.get_kv_value("noted").unwrap_or_default();
    Ok(format!(
        "round {round}, asked: {answer}, kept {kept}, noted {noted}"
    ))
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 2,
        // Activities that hold keep their worker.
        worker_concurrency: 8,
        worker_node_id: Some("the-one-that-left".to_owned()),
        ..RuntimeOptions::default()
    }
}

/// The first starts: instance, orchestration, input, and the event that shows that the instance has
/// reached its state.
const FIRST: &[(&str, &str, &str, &str)] = &[
    ("completed", "Chain", "3", "OrchestrationCompleted"),
    ("failed", "Fail", "", "OrchestrationFailed"),
    ("held", "Held", "", "ActivityCompleted"),
    (HOSTILE, "Held", "", "ActivityCompleted"),
    ("fan", "Fan", "", "ActivityCompleted"),
    ("timed", "Timed", "", "TimerCreated"),
    ("far", "Far", "", "TimerCreated"),
    ("asked", "Asked", "", "ExternalSubscribed"),
    ("open", "Asked", "", "ExternalSubscribed"),
    ("letters", "Letters", "", "QueueEventDelivered"),
    ("parent", "Parent", "", "SubOrchestrationScheduled"),
    ("rounds", "Rounds", "1", "ExternalSubscribed"),
    ("session", "Session", "", "ActivityCompleted"),
    ("tagged", "Tagged", "gpu", "ActivityScheduled"),
    ("answered", "Tagged", "by-hand", "ActivityScheduled"),
    ("cancelled", "Asked", "", "ExternalSubscribed"),
    (
        "waits-for-child",
        "Parent",
        "child",
        "SubOrchestrationScheduled",
    ),
];

/// Runs all work until the process is killed.
pub(crate) async fn join(store: Arc<dyn Provider>) {
    let _runtime = Runtime::start_with_options(
        store,
        activities(false),
        orchestrations(),
        RuntimeOptions::default(),
    )
    .await;
    pending::<()>().await;
}

/// Waits until an instance's history shows the expected event.
async fn until(store: &Arc<dyn Provider>, instance: &str, shows: &str) {
    let started = std::time::Instant::now();
    loop {
        let history = store.read(instance).await.unwrap_or_default();
        if history
            .iter()
            .any(|event| format!("{:?}", event.kind).starts_with(shows))
        {
            return;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{instance} never shows {shows}: {history:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The first part: a runtime brings instances into their states, and is killed while activities
/// run.
pub(crate) async fn leave_first(store: Arc<dyn Provider>) {
    let client = Client::new(store.clone());
    let _runtime =
        Runtime::start_with_options(store.clone(), activities(true), orchestrations(), options())
            .await;
    for (instance, orchestration, input, _) in FIRST {
        let started = client.start_orchestration(*instance, *orchestration, *input);
        started.await.expect("it starts");
    }
    // A message for a queue without a reader is dropped.
    until(&store, "letters", "QueueSubscribed").await;
    client
        .enqueue_event("letters", "letters", "one")
        .await
        .expect("it is sent");
    for (instance, _, _, shows) in FIRST {
        until(&store, instance, shows).await;
    }
    until(&store, "child", "ExternalSubscribed").await;
    until(&store, "parent::sub::2", "ExternalSubscribed").await;
    // Wait until workers have taken the activities that hold them.
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// The second part, on a store that delivers nothing to other instances: messages on their way,
/// then what clients enqueue and processes leave behind while no runtime is there.
pub(crate) async fn leave_second(store: Arc<dyn Provider>) {
    let client = Client::new(store.clone());
    let runtime =
        Runtime::start_with_options(store.clone(), activities(true), orchestrations(), options())
            .await;
    for (instance, orchestration) in [("parent-undelivered", "Parent"), ("detaches", "Detaches")] {
        let started = client.start_orchestration(instance, orchestration, "");
        started.await.expect("it starts");
    }
    client
        .raise_event("child", "answer", "of the child")
        .await
        .expect("it is raised");
    until(&store, "parent-undelivered", "SubOrchestrationScheduled").await;
    until(&store, "detaches", "OrchestrationCompleted").await;
    until(&store, "child", "OrchestrationCompleted").await;
    runtime.shutdown(Some(0)).await;
    leave_without_runtime(store, &client).await;
}

async fn leave_without_runtime(store: Arc<dyn Provider>, client: &Client) {
    let started = client.start_orchestration("turn-lost", "Chain", "1");
    started.await.expect("it starts");
    let lock = Duration::from_secs(5);
    let turn = store
        .fetch_orchestration_item(lock, lock, None)
        .await
        .expect("a fetch");
    let (turn, _, _) = turn.expect("a turn");
    assert_eq!(turn.instance, "turn-lost");
    let tags = TagFilter::Tags(HashSet::from(["by-hand".to_owned()]));
    let work = store
        .fetch_work_item(lock, lock, None, &tags)
        .await
        .expect("a fetch");
    let (work, token, _) = work.expect("an activity");
    let WorkItem::ActivityExecute {
        instance,
        execution_id,
        id,
        ..
    } = work
    else {
        panic!("no activity: {work:?}");
    };
    let result = "by hand".to_owned();
    let ended = WorkItem::ActivityCompleted {
        instance,
        execution_id,
        id,
        result,
    };
    store
        .ack_work_item(&token, Some(ended))
        .await
        .expect("it is acknowledged");
    client
        .raise_event("asked", "answer", "in the queue")
        .await
        .expect("it is raised");
    for letter in ["two", "three"] {
        client
            .enqueue_event("letters", "letters", letter)
            .await
            .expect("it is sent");
    }
    client
        .cancel_instance("cancelled", REASON)
        .await
        .expect("it is cancelled");
    let started = client.start_orchestration("not-started", "Chain", "2");
    started.await.expect("it is enqueued");
}
