//! Replaying recorded instances through changed code: each change is found at its event, and
//! unchanged code differs nowhere.

use std::time::Duration;

use cdb_provider::replay::{DifferenceKind, Recording, Replay};
use duroxide::providers::ProviderAdmin as _;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either2, OrchestrationContext, OrchestrationRegistry};

use crate::harness::TestEnv;

/// A change of the code of [`order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    ValueChanged,
    ValueRemoved,
    StatusRemoved,
    ActivityRenamed,
    ActivityInputChanged,
    ActivityRemoved,
    ActivityInserted,
    ActivityBecomesChild,
    ActivityTagged,
    ActivityOnSession,
    TimerRemoved,
    TimerBecomesActivity,
    TimerBeforeActivity,
    ChildRenamed,
    ChildInputChanged,
    ActivitiesSwapped,
    EventRenamed,
    EventRemoved,
    EventBecomesQueued,
    StartRemoved,
    QueueRenamed,
    ReturnsEarly,
    Panics,
    DecisionAdded,
}

/// An orchestration with every kind of decision, which then waits for the event `Last`.
async fn order(ctx: OrchestrationContext, input: String, change: Change) -> Result<String, String> {
    let is = |other| change == other;
    assert!(!is(Change::Panics), "a fault of the new code");
    if !is(Change::ValueRemoved) {
        let value = if is(Change::ValueChanged) {
            "other"
        } else {
            "new"
        };
        ctx.set_kv_value("stage", value);
    }
    if !is(Change::StatusRemoved) {
        ctx.set_custom_status("charging");
    }
    charge(&ctx, &input, change).await?;
    notify(&ctx, change).await?;
    ship(&ctx, change).await?;
    if is(Change::ReturnsEarly) {
        return Ok("early".to_owned());
    }
    if is(Change::EventBecomesQueued) {
        ctx.dequeue_event("Approved").await;
    } else if !is(Change::EventRemoved) {
        let name = if is(Change::EventRenamed) {
            "Accepted"
        } else {
            "Approved"
        };
        ctx.schedule_wait(name).await;
    }
    if !is(Change::StartRemoved) {
        ctx.schedule_orchestration("Log", "log-of-order", "shipped");
    }
    let queue = if is(Change::QueueRenamed) {
        "post"
    } else {
        "mail"
    };
    ctx.dequeue_event(queue).await;
    if is(Change::DecisionAdded) {
        let added = ctx.schedule_activity("Audit", "");
        return Ok(ctx.join2(ctx.schedule_wait("Last"), added).await.0);
    }
    Ok(ctx.schedule_wait("Last").await)
}

async fn charge(ctx: &OrchestrationContext, input: &str, change: Change) -> Result<(), String> {
    let is = |other| change == other;
    if is(Change::ActivityInserted) {
        ctx.schedule_activity("Reserve", "").await?;
    }
    let name = if is(Change::ActivityRenamed) {
        "Pay"
    } else {
        "Charge"
    };
    let input = if is(Change::ActivityInputChanged) {
        "0"
    } else {
        input
    };
    if is(Change::ActivityBecomesChild) {
        ctx.schedule_sub_orchestration(name, input).await?;
    } else if is(Change::ActivityTagged) {
        ctx.schedule_activity(name, input).with_tag("gpu").await?;
    } else if is(Change::ActivityOnSession) {
        ctx.schedule_activity_on_session(name, input, "s").await?;
    } else if !is(Change::ActivityRemoved) {
        ctx.schedule_activity(name, input).await?;
    }
    Ok(())
}

/// Waits for an activity, at most an hour.
async fn notify(ctx: &OrchestrationContext, change: Change) -> Result<(), String> {
    let timer = || ctx.schedule_timer(Duration::from_secs(3600));
    let activity = |name| ctx.schedule_activity(name, "");
    let winner = match change {
        Change::TimerRemoved => Either2::First(activity("Notify").await),
        Change::TimerBecomesActivity => {
            let notified = activity("Notify");
            Either2::First(ctx.join2(notified, activity("Wait")).await.0)
        }
        Change::TimerBeforeActivity => {
            let timer = timer();
            ctx.select2(activity("Notify"), timer).await
        }
        _ => {
            let notified = activity("Notify");
            ctx.select2(notified, timer()).await
        }
    };
    match winner {
        Either2::First(notified) => notified.map(|_| ()),
        Either2::Second(()) => Err("the activity is faster".to_owned()),
    }
}

/// Ships the order and waits for the approval.
async fn ship(ctx: &OrchestrationContext, change: Change) -> Result<(), String> {
    let is = |other| change == other;
    let child = if is(Change::ChildRenamed) {
        "Log"
    } else {
        "Ship"
    };
    let parcel = if is(Change::ChildInputChanged) {
        "two"
    } else {
        "one"
    };
    ctx.schedule_sub_orchestration(child, parcel).await?;
    let both = if is(Change::ActivitiesSwapped) {
        ["B", "A"]
    } else {
        ["A", "B"]
    };
    let both = both.map(|name| ctx.schedule_activity(name, ""));
    ctx.join(both.into()).await;
    Ok(())
}

/// Counts down with an execution each.
async fn countdown(ctx: OrchestrationContext, input: String, step: &str) -> Result<String, String> {
    let number: u32 = input.parse().map_err(|_| "no number".to_owned())?;
    ctx.schedule_activity("A", input).await?;
    match number.checked_sub(1) {
        Some(next) => ctx.continue_as_new(format!("{step}{next}")).await,
        None => Err("counted down".to_owned()),
    }
}

fn code(change: Change) -> OrchestrationRegistry {
    let done = |_: OrchestrationContext, input: String| async move { Ok(input) };
    OrchestrationRegistry::builder()
        .register("Order", move |ctx, input| order(ctx, input, change))
        .register("Countdown", |ctx, input| countdown(ctx, input, ""))
        .register("Ship", done)
        .register("Log", done)
        .build()
}

fn activities() -> ActivityRegistry {
    let mut activities = ActivityRegistry::builder();
    for name in ["Charge", "Notify", "A", "B"] {
        activities = activities.register(name, |_: ActivityContext, input: String| async move {
            Ok(input)
        });
    }
    activities.build()
}

/// Runs an order until it waits for its last event.
async fn waiting_order() -> (TestEnv, Recording) {
    let env = TestEnv::start(activities(), code(Change::None)).await;
    let client = &env.client;
    env.begin("order", "Order", "990").await;
    env.until_subscribed("order", "Approved").await;
    env.raise("order", "Approved", "").await;
    ok!(client.enqueue_event("order", "mail", ""));
    env.until_subscribed("order", "Last").await;
    let recording = env.provider.recording("order").await.expect("it is read");
    (env, recording.expect("the instance exists"))
}

#[tokio::test]
async fn each_change_is_found_at_its_event() {
    let (env, recording) = waiting_order().await;
    let cases = [
        (Change::ValueChanged, "KeyValueSet"),
        (Change::ValueRemoved, "KeyValueSet"),
        (Change::StatusRemoved, "CustomStatusUpdated"),
        (Change::ActivityRenamed, "\"Charge\""),
        (Change::ActivityInputChanged, "\"Charge\""),
        (Change::ActivityRemoved, "\"Charge\""),
        (Change::ActivityInserted, "\"Charge\""),
        (Change::ActivityBecomesChild, "\"Charge\""),
        (Change::ActivityTagged, "\"Charge\""),
        (Change::ActivityOnSession, "\"Charge\""),
        (Change::TimerRemoved, "TimerCreated"),
        (Change::TimerBecomesActivity, "TimerCreated"),
        (Change::TimerBeforeActivity, "\"Notify\""),
        (Change::ChildRenamed, "SubOrchestrationScheduled"),
        (Change::ChildInputChanged, "SubOrchestrationScheduled"),
        (Change::ActivitiesSwapped, "\"A\""),
        (Change::EventRenamed, "\"Approved\""),
        (Change::EventRemoved, "\"Approved\""),
        (Change::EventBecomesQueued, "\"Approved\""),
        (Change::StartRemoved, "OrchestrationChained"),
        (Change::QueueRenamed, "QueueSubscribed"),
        (Change::ReturnsEarly, "\"Approved\""),
        (Change::Panics, "KeyValueSet"),
        (Change::DecisionAdded, "\"Last\""),
    ];
    for (change, place) in cases {
        let difference = Replay::new(code(change)).check(&recording).unwrap_err();
        let mut events = recording.events().iter();
        let expected = events.find(|event| format!("{:?}", event.kind).contains(place));
        let expected = expected.expect("an event of this kind").event_id();
        assert_eq!(difference.event, Some(expected), "{change:?}: {difference}");
        assert_eq!(
            difference.kind,
            DifferenceKind::Decision,
            "{change:?}: {difference}"
        );
    }
    env.stop().await;
}

#[tokio::test]
async fn unchanged_code_differs_nowhere() {
    let (env, recording) = waiting_order().await;
    let replay = Replay::new(code(Change::None));
    assert_eq!(replay.check(&recording), Ok(()));
    env.raise("order", "Last", "done").await;
    env.end_of("order").await.expect("it completes");
    let ended = env
        .provider
        .recording("order")
        .await
        .expect("it is read")
        .expect("it exists");
    assert_eq!(replay.check(&ended), Ok(()));
    env.stop().await;
}

#[tokio::test]
async fn ends_are_compared_too() {
    let env = TestEnv::start(activities(), code(Change::None)).await;
    env.run("countdown", "Countdown", "1")
        .await
        .expect_err("it fails at the end");
    let mut recordings = Vec::new();
    for execution in [1, 2] {
        let events = env
            .provider
            .read_history_with_execution_id("countdown", execution)
            .await;
        recordings.push(Recording::new(
            "countdown",
            execution,
            events.expect("a history"),
        ));
    }
    let replay = Replay::new(code(Change::None));
    for recording in &recordings {
        assert_eq!(replay.check(recording), Ok(()));
    }
    let changed = OrchestrationRegistry::builder()
        .register("Countdown", |ctx, input| countdown(ctx, input, "0"))
        .build();
    let replay = Replay::new(changed);
    let difference = replay.check(&recordings[0]).unwrap_err();
    assert_eq!(difference.kind, DifferenceKind::End, "{difference}");
    let text = "recorded is continue-as-new with input `0`, the code ends with continue-as-new with input `00`";
    assert_eq!(difference.text, text);
    assert_eq!(
        replay.check(&recordings[1]),
        Ok(()),
        "the failure is the same"
    );
    env.stop().await;
}

#[tokio::test]
async fn a_missing_version_is_named_with_those_that_are_registered() {
    let (env, recording) = waiting_order().await;
    let other = OrchestrationRegistry::builder()
        .register_versioned("Order", "2.0.0", |ctx, input| {
            order(ctx, input, Change::None)
        })
        .build();
    let difference = Replay::new(other).check(&recording).unwrap_err();
    assert_eq!(difference.kind, DifferenceKind::NotRegistered);
    let text = "version 1.0.0 of orchestration `Order` is not registered; registered: 2.0.0";
    assert_eq!(difference.text, text);
    assert!(
        env.provider
            .recording("missing")
            .await
            .expect("it is read")
            .is_none()
    );
    env.stop().await;
}
