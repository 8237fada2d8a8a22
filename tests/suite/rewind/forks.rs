//! Forks: new instances that continue from a recorded history.

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::Fork;
use cdb_provider::documents::InstanceKey;
use duroxide::EventKind;
use duroxide::providers::Provider as _;

use super::shapes::{World, expected};
use crate::harness::TestEnv;

/// A fork of the newest execution.
fn at(event: u64, new_instance: &str) -> Fork<'_> {
    Fork {
        execution: None,
        event,
        new_instance,
    }
}

async fn sound() -> TestEnv {
    let world = World::default();
    world.repair();
    TestEnv::start(world.activities(), world.orchestrations()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_continues_from_an_event_in_another_instance() {
    let env = sound().await;
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
    let forked = ok!(env.provider.fork("i", at(broken.event_id, "fork"), "ada"));
    assert_eq!(forked.activities, ["Work #3"]);
    assert_eq!(env.end_of("fork").await.as_deref(), Ok(expected("values")));
    let whole = env.provider.fork("i", at(1, "whole"), "ada").await;
    assert_eq!(whole.expect("it is forked").kept, 0);
    assert_eq!(env.end_of("whole").await.as_deref(), Ok(expected("values")));
    for (instance, what) in [
        (
            "fork",
            format!("forked from execution 1 of i, event {}", broken.event_id),
        ),
        ("whole", "forked from execution 1 of i, event 1".to_owned()),
    ] {
        let key = InstanceKey::new(instance);
        let stored = ok!(env.provider.container().read(&key)).expect("it exists");
        let origin = stored.document.origin.expect("the operator");
        assert_eq!((&*origin.by, origin.what), ("ada", what));
    }
    for (event, new_instance, part) in [
        (99, "other", "has no event 99"),
        (1, "fork", "`fork` exists"),
    ] {
        let refused = env.provider.fork("i", at(event, new_instance), "ada").await;
        let refused = refused.expect_err("it cannot").message;
        assert!(refused.contains(part), "{refused}");
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_has_the_values_of_earlier_executions() {
    let env = sound().await;
    let end = env.run("i", "Shaped", "inherit").await;
    assert_eq!(end.as_deref(), Ok(expected("inherit")));
    let forked = env.provider.fork("i", at(3, "fork"), "ada").await;
    assert_eq!(forked.expect("it is forked").activities, ["Work #2"]);
    assert_eq!(env.end_of("fork").await.as_deref(), Ok(expected("inherit")));
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_clears_the_values_that_its_kept_events_clear() {
    let env = sound().await;
    let end = env.run("i", "Shaped", "cleared").await;
    assert_eq!(end.as_deref(), Ok(expected("cleared")));
    let second = Fork {
        execution: Some(2),
        ..at(4, "fork")
    };
    let forked = env.provider.fork("i", second, "ada").await;
    assert_eq!(forked.expect("it is forked").activities, ["Work #3"]);
    assert_eq!(env.end_of("fork").await.as_deref(), Ok(expected("cleared")));
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_fork_is_repeated() {
    let env = sound().await;
    let Some(emulator) = env.emulator() else {
        println!("skipped: only the emulator fails on demand");
        return env.stop().await;
    };
    env.run("i", "Shaped", "chain").await.expect("it completes");
    // The new instance is locked, and its commit fails.
    emulator.inject(Fault::always(Effect::error(400, 0)).on(OperationKind::Batch));
    let interrupted = env.provider.fork("i", at(3, "fork"), "ada").await;
    interrupted.expect_err("it is interrupted");
    emulator.clear_faults();
    ok!(env.provider.fork("i", at(3, "fork"), "ada"));
    assert_eq!(env.end_of("fork").await.as_deref(), Ok(expected("chain")));
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_concurrent_forks_is_refused() {
    let env = sound().await;
    env.run("i", "Shaped", "chain").await.expect("it completes");
    let fork = |by| env.provider.fork("i", at(1, "fork"), by);
    let (first, second) = tokio::join!(fork("ada"), fork("bob"));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let refused = first
        .err()
        .or(second.err())
        .expect("one is refused")
        .message;
    says!(refused, "`fork` exists; choose another id");
    env.stop().await;
}
