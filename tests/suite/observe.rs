//! The answers of `provider.observe()`: they find all that waits, and name nothing that does not.

use crate::work_items::{activity_named, activity_of, start_of};
use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_emulator::Emulator;
use cdb_model::{Document as _, Timestamp};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{
    Durable, Hold, HoldCause, Instance, OrchestratorItem, Rule, Status, WorkerItem,
};
use cdb_provider::observe::{InstanceQuery, Obstacle, Presence, StartState, WaitKind};
use duroxide::providers::WorkItem;

/// A provider of an emulator of its own.
async fn store() -> (Emulator, CosmosDBProvider) {
    let emulator = Emulator::start().await.expect("an emulator");
    let store = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await;
    (emulator, store.expect("a provider"))
}

fn ago(container: &ContainerClient<Durable>, seconds: u64) -> Timestamp {
    container.now() - Duration::from_secs(seconds)
}

/// Returns a running instance.
fn running(id: &str, now: Timestamp) -> Instance {
    Instance {
        orchestration_name: "Order".to_owned(),
        status: Status::Running,
        ..Instance::pending(id, now)
    }
}

/// Returns an instance that waits for other code.
fn held(id: &str, now: Timestamp) -> Instance {
    Instance {
        held: Some(Hold {
            since: now,
            cause: HoldCause::Unregistered,
            orchestration: "Order".to_owned(),
            version: None,
            event: None,
            reason: "not registered".to_owned(),
            by: "a".to_owned(),
        }),
        ..running(id, now)
    }
}

/// Stores the start of an instance that has been due for a while.
async fn start(container: &ContainerClient<Durable>, instance: &str, seconds: u64) {
    let mut start = start_of(instance, "Order");
    if let WorkItem::StartOrchestration { version, .. } = &mut start {
        *version = Some("2.0.0".to_owned());
    }
    message(container, &start, seconds).await;
}

/// Stores a queued event that has been due for a while.
async fn event(container: &ContainerClient<Durable>, instance: &str, seconds: u64) {
    let event = WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "Letters".to_owned(),
        data: String::new(),
    };
    message(container, &event, seconds).await;
}

async fn message(container: &ContainerClient<Durable>, item: &WorkItem, seconds: u64) {
    let at = ago(container, seconds);
    let message = OrchestratorItem::new(item, "cause".to_owned(), at, at).expect("a message");
    ok!(container.run(message.create()));
}

/// Returns an activity that has been due for a while.
fn activity(container: &ContainerClient<Durable>, instance: &str, seconds: u64) -> WorkerItem {
    let charge = activity_named("Charge", activity_of(instance, 2, None));
    let item = WorkerItem::new(&charge, ago(container, seconds)).expect("JSON");
    item.expect("an activity")
}

/// Locks an activity for some seconds.
fn locked(container: &ContainerClient<Durable>, item: WorkerItem, seconds: u64) -> WorkerItem {
    let until = container.now() + Duration::from_secs(seconds);
    WorkerItem {
        visible_at: until,
        locked_until: Some(until),
        lock_token: Some("lock".to_owned()),
        attempt_count: 1,
        ..item
    }
}

#[tokio::test]
async fn nothing_waits_in_an_empty_container() {
    let (_emulator, store) = store().await;
    let health = store.observe().health().await.expect("an answer");
    assert_eq!(
        health.queues.messages.count + health.queues.activities.count,
        0
    );
    assert_eq!((health.queues.timers, health.queues.running), (0, 0));
    assert!(health.queues.slots.is_empty() && health.queues.limited.is_none());
    assert!(health.stuck_instances.is_empty() && health.stuck_activities.is_empty());
    assert!(health.unstarted.is_empty() && health.idle_limits.is_empty());
    assert!(health.members.members.is_empty() && health.overdue_at_instances.is_none());
}

#[tokio::test]
async fn messages_and_instances_that_wait_are_found() {
    let (_emulator, store) = store().await;
    let container = store.container();
    start(container, "new", 70).await;
    let held = held("held", ago(container, 100));
    let poison = Instance {
        attempts: BTreeMap::from([("message".to_owned(), 7)]),
        ..running("poison", ago(container, 100))
    };
    for instance in [held, poison] {
        event(container, &instance.instance_id, 80).await;
        ok!(container.run(instance.create()));
    }

    let health = store.observe().health().await.expect("an answer");
    let queues = &health.queues;
    assert_eq!(queues.messages.count, 3);
    assert!(queues.messages.overdue() >= Some(Duration::from_secs(80)));
    assert_eq!(queues.overdue_slots().count(), queues.slots.len());
    assert_eq!(
        health.overdue_at_instances, None,
        "a runtime should begin `new`"
    );
    let [new] = &*health.unstarted else {
        panic!("{:?}", health.unstarted);
    };
    assert_eq!((&*new.id, new.state), ("new", StartState::Unfetched));
    assert_eq!(new.required_type(), "Order 2.0.0");
    let stuck: Vec<_> = health.stuck_instances.iter().map(|one| &*one.id).collect();
    assert_eq!(stuck, ["held", "poison"]);
    assert!(matches!(
        health.stuck_instances[0].obstacle,
        Obstacle::Held(_)
    ));
    assert!(matches!(
        health.stuck_instances[1].obstacle,
        Obstacle::Attempts(7)
    ));
}

#[tokio::test]
async fn activities_that_wait_or_do_not_end_are_found() {
    let (_emulator, store) = store().await;
    let container = store.container();
    let waiting = activity(container, "order", 90);
    let endless = locked(container, activity(container, "poison", 95), 3_000);
    for item in [waiting, endless] {
        container.run(item.create()).await.expect("it is stored");
    }
    let misspelt = Rule::new("activty=Charge".parse().expect("valid")).weight(2);
    store.set_limit(misspelt, "ada").await.expect("it is set");

    let health = store.observe().health().await.expect("an answer");
    let queues = &health.queues;
    assert_eq!((queues.activities.count, queues.running), (1, 1));
    assert!(queues.overdue_activities() >= Some(Duration::from_secs(90)));
    let [busy] = &*queues.busy else {
        panic!("{:?}", queues.busy);
    };
    assert_eq!(
        (busy.activities, &*busy.longest.activity),
        (1, "Charge #2"),
        "the one of `poison`"
    );
    let [stuck] = &*health.stuck_activities else {
        panic!("{:?}", health.stuck_activities);
    };
    assert_eq!((&*stuck.instance, stuck.id), ("poison", 2));
    assert!(matches!(stuck.obstacle, Obstacle::Locked { .. }));
    let idle: Vec<_> = health.idle_limits.iter().map(ToString::to_string).collect();
    assert_eq!(idle, ["activty=Charge"]);
}

#[tokio::test]
async fn what_runs_or_is_due_soon_is_not_named() {
    let (_emulator, store) = store().await;
    let container = store.container();
    start(container, "new", 1).await;
    let order = running("order", ago(container, 100));
    container.run(order.create()).await.expect("it is stored");
    let timer = WorkItem::TimerFired {
        instance: "order".to_owned(),
        execution_id: 1,
        id: 3,
        fire_at_ms: 0,
    };
    let at = container.now() + Duration::from_secs(30);
    let timer = OrchestratorItem::new(&timer, "timer".to_owned(), at, at).expect("a message");
    container.run(timer.create()).await.expect("it is stored");
    let item = locked(container, activity(container, "order", 95), 30);
    container.run(item.create()).await.expect("it is stored");
    let rule = Rule::new("activity=Charge".parse().expect("valid")).running(5);
    store.set_limit(rule, "ada").await.expect("it is set");

    let health = store.observe().health().await.expect("an answer");
    let queues = &health.queues;
    assert_eq!((queues.timers, queues.running), (1, 1));
    assert_eq!(queues.messages.count, 1);
    assert_eq!(queues.messages.overdue(), None);
    assert_eq!(queues.overdue_activities(), None);
    assert!(queues.busy.is_empty(), "no activity waits");
    assert!(health.stuck_instances.is_empty() && health.stuck_activities.is_empty());
    assert!(health.idle_limits.is_empty());
    assert_eq!(health.unstarted[0].state, StartState::Recent);
}

/// The messages of a held instance stay due, and no other runtime changes this.
#[tokio::test]
async fn overdue_messages_that_their_instances_do_not_take_yet_wait_for_no_runtime() {
    let (_emulator, store) = store().await;
    let container = store.container();
    let full = Instance {
        untaken_events: Some(64),
        ..running("full", ago(container, 100))
    };
    container.run(full.create()).await.expect("it is stored");
    event(container, "full", 80).await;
    let health = store.observe().health().await.expect("an answer");
    assert!(health.queues.messages.overdue().is_some());
    assert_eq!(health.overdue_at_instances, Some(1));
}

#[tokio::test]
async fn instances_are_listed_with_what_they_wait_for() {
    let (_emulator, store) = store().await;
    let container = store.container();
    let held = held("held", ago(container, 50));
    let late = running("late", ago(container, 40));
    let other = Instance {
        orchestration_name: "Ship".to_owned(),
        ..running("other", ago(container, 30))
    };
    for instance in [held, late, other] {
        ok!(container.run(instance.create()));
    }
    event(container, "late", 10).await;
    start(container, "new", 10).await;
    let observe = store.observe();
    let orders = InstanceQuery {
        orchestration: Some("Order".to_owned()),
        oldest_first: true,
        ..InstanceQuery::default()
    };
    let page = observe.instances_with_waits(&orders, 10, None).await;
    let page = page.expect("a page");
    let found: Vec<_> = page
        .instances
        .iter()
        .map(|one| {
            let kind = one.waits_for.as_ref().map(|waits| waits.kind);
            (&*one.id, &*one.state, kind)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("held", "Held", Some(WaitKind::Held)),
            ("late", "Running", Some(WaitKind::Runtime)),
        ]
    );
    assert_eq!(page.examined, 3);

    let detail = observe.detail("late").await.expect("an answer");
    let detail = detail.expect("it exists");
    assert_eq!(detail.messages[0].what, "QueueMessage Letters");
    assert!(observe.detail("new").await.expect("an answer").is_none());
    let presence = |id| async move { observe.presence(id).await.expect("an answer") };
    assert!(matches!(presence("late").await, Presence::Begun(_)));
    assert!(matches!(presence("nothing").await, Presence::Missing));
    let Presence::Queued(queued) = presence("new").await else {
        panic!("its start is queued");
    };
    assert_eq!(queued.message, "StartOrchestration Order");
    assert!(queued.instance.is_some_and(|instance| instance.is_unbegun));
}
