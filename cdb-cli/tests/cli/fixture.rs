//! A container with orchestrations in all states, written as documents, so that every run reads the
//! same data.

use std::collections::BTreeMap;

use cdb_client::ContainerClient;
use cdb_client::database::ContainerChange;
use cdb_model::{Container as _, Document as _, Timestamp};
use cdb_provider::CosmosDBProvider;
use cdb_provider::coordination::membership::{MemberDocument, MemberRecord};
use cdb_provider::documents::{
    AttributeValue, Durable, Execution, HistorySegment, Instance, IntentItem, IntentQueue,
    KeyValue, Member, NEVER, OrchestratorItem, OutboxIntent, Status, WorkerItem,
};
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

use crate::harness::Account;
use crate::work_items::{self, event_of};

/// Returns the time `seconds` after 2026-01-01 00:00:00 UTC.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000 + seconds * 1000)
}

/// Returns an instance that was created at [`at`] `seconds`.
pub(crate) fn instance(id: &str, name: &str, status: Status, seconds: u64) -> Instance {
    let ended = matches!(status, Status::Completed | Status::Failed);
    Instance {
        orchestration_name: name.to_owned(),
        orchestration_version: Some("1.0.0".to_owned()),
        status,
        updated_at: at(seconds + 5),
        started_at: Some(at(seconds)),
        completed_at: ended.then(|| at(seconds + 5)),
        ..Instance::pending(id, at(seconds))
    }
}

/// Returns a running instance with as many events as it may have that it does not take.
pub(crate) fn full(id: &str) -> Instance {
    Instance {
        untaken_events: Some(64),
        ..instance(id, "Inbox", Status::Running, 0)
    }
}

/// Returns the search attributes of an order.
fn attributes(order: u32) -> BTreeMap<String, AttributeValue> {
    let customer = if order == 1 { "ada" } else { "bob" };
    let customer = AttributeValue::String(customer.to_owned());
    let total = AttributeValue::Number(f64::from(330 * order));
    [
        ("customer".to_owned(), customer),
        ("total".to_owned(), total),
    ]
    .into()
}

/// Returns an event of `order-2`.
fn event(id: u64, source: Option<u64>, second: u64, kind: EventKind) -> Event {
    Event {
        event_id: id,
        source_event_id: source,
        instance_id: "order-2".to_owned(),
        execution_id: 2,
        timestamp_ms: at(second).as_millis(),
        duroxide_version: "0.1.32".to_owned(),
        kind,
    }
}

/// Returns the first event of an order.
pub(crate) fn started(instance: &str) -> Event {
    let started = work_items::started("Order", "{\"cents\":990}");
    Event {
        instance_id: instance.to_owned(),
        ..event(1, None, 60, started)
    }
}

fn history() -> [Vec<Event>; 2] {
    let text = |text: &str| text.to_owned();
    let activity = |name: &str| work_items::scheduled(name, "990");
    let child = EventKind::SubOrchestrationScheduled {
        name: text("Ship"),
        instance: text("order-2::sub::4"),
        input: text("parcel"),
    };
    let timer = EventKind::TimerCreated {
        fire_at_ms: at(3600).as_millis(),
    };
    let done = EventKind::ActivityCompleted {
        result: text("paid"),
    };
    [
        vec![
            started("order-2"),
            event(2, None, 60, activity("Charge")),
            event(3, None, 60, timer),
        ],
        vec![
            event(4, Some(2), 63, done),
            event(5, None, 63, child),
            event(6, None, 64, activity("Notify")),
        ],
    ]
}

/// Stores the documents of the fixture.
pub(crate) async fn fill(account: &Account) -> ContainerClient<Durable> {
    let container = opened(account).await;
    let order = |number: u32, status| Instance {
        attributes: attributes(number),
        ..instance(
            &format!("order-{number}"),
            "Order",
            status,
            u64::from(number) * 30,
        )
    };
    let running = Instance {
        current_execution_id: 2,
        custom_status: Some("charged".to_owned()),
        ..order(2, Status::Running)
    };
    let failed = Instance {
        output: Some("card refused".to_owned().into()),
        ..order(3, Status::Failed)
    };
    let child = Instance {
        parent_instance_id: Some("order-2".to_owned()),
        ..instance("order-2::sub::4", "Ship", Status::Running, 63)
    };
    for document in [order(1, Status::Completed), running, failed, child] {
        container.run(document.create()).await.expect("an instance");
    }
    for events in history() {
        let segment = HistorySegment::pack("order-2", 2, &events)
            .expect("it packs")
            .expect("events");
        container.run(segment.create()).await.expect("a segment");
    }
    let earlier = Execution {
        instance_id: "order-2".to_owned(),
        execution_id: 1,
        status: Status::ContinuedAsNew,
        output: None,
        started_at: at(30),
        completed_at: Some(at(59)),
        rewound: None,
    };
    container.run(earlier.create()).await.expect("an execution");
    let value = KeyValue {
        instance_id: "order-2".to_owned(),
        key: "total".to_owned(),
        value: "990".to_owned(),
        execution_id: 1,
        last_updated_at_ms: at(31),
    };
    container.run(value.create()).await.expect("a value");
    queue(&container).await;
    container
}

/// Opens the container as a runtime does, which writes the items of the schema gate.
async fn opened(account: &Account) -> ContainerClient<Durable> {
    let emulator = &account.emulator;
    let opened = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await;
    opened.expect("it opens").container().clone()
}

async fn queue(container: &ContainerClient<Durable>) {
    let raised = event_of("order-2", "Approved", "yes");
    let message =
        OrchestratorItem::new(&raised, "raised-1".to_owned(), at(70), at(70)).expect("a message");
    container.run(message.create()).await.expect("it is stored");
    let notify = WorkItem::ActivityExecute {
        instance: "order-2".to_owned(),
        execution_id: 2,
        id: 6,
        name: "Notify".to_owned(),
        input: "990".to_owned(),
        session_id: None,
        tag: Some("mail".to_owned()),
    };
    let activity = WorkerItem::new(&notify, at(64))
        .expect("it is written")
        .expect("an activity");
    let activity = WorkerItem {
        attempt_count: 7,
        ..activity
    };
    ok!(container.run(activity.create()));
    let start = WorkItem::StartOrchestration {
        instance: "order-2::sub::4".to_owned(),
        orchestration: "Ship".to_owned(),
        input: "parcel".to_owned(),
        version: None,
        parent_instance: Some("order-2".to_owned()),
        parent_id: Some(5),
        parent_execution_id: Some(2),
        execution_id: 1,
    };
    let intent = OutboxIntent {
        instance_id: "order-2".to_owned(),
        idempotency_key: "turn-2".to_owned(),
        target_instance_id: "order-2::sub::4".to_owned(),
        items: vec![IntentItem {
            queue: IntentQueue::Orchestrator,
            work_item: serde_json::to_string(&start).expect("JSON").into(),
            visible_at: at(64),
        }],
        created_at: at(64),
        attempt_count: 3,
        ..OutboxIntent::default()
    };
    container.run(intent.create()).await.expect("it is stored");
}

/// Stores a dead letter of `order-3`.
pub(crate) async fn dead_intent(container: &ContainerClient<Durable>) {
    let raised = event_of("stock", "Released", "7");
    let item = IntentItem {
        queue: IntentQueue::Orchestrator,
        work_item: serde_json::to_string(&raised).expect("JSON").into(),
        visible_at: at(90),
    };
    let intent = OutboxIntent {
        items: vec![item.clone(), item],
        created_at: NEVER,
        attempt_count: 10,
        failure: Some("create item: 403 Forbidden".to_owned()),
        ..OutboxIntent::new("order-3", "turn-1".to_owned(), "stock", at(90))
    };
    container.run(intent.create()).await.expect("it is stored");
}

/// Stores two members, one of them without a heartbeat since 2026-01-01.
pub(crate) async fn members(container: &ContainerClient<Durable>) {
    let heartbeat = |at| MemberRecord::Heartbeat {
        incarnation: "1".to_owned(),
        period_ms: 3_000,
        at,
    };
    let members = vec!["east".to_owned(), "west".to_owned()];
    for (name, record) in [
        ("roster", MemberRecord::roster(members)),
        ("member.east", heartbeat(container.now())),
        ("member.west", heartbeat(at(0))),
    ] {
        let member = Member::new("cdb:members", name, record);
        container.run(member.create()).await.expect("it is stored");
    }
}

/// Removes an index that the model needs from the container's policy.
pub(crate) async fn remove_status_index(account: &Account) {
    let mut policy = Durable::definition().indexing_policy;
    policy
        .included_paths
        .retain(|path| path.path != "/status/?");
    let change = ContainerChange::default().with_indexing_policy(policy);
    let database = account.database();
    ok!(database.change_container("duroxide", &change));
}
