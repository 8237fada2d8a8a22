//! Small steps of the hot path, each with an input like those of a chain of activities: id
//! formatting, policy merge, batch encoding, document decoding.

use std::hint::black_box;

use cdb_provider::documents::{
    Durable, HistorySegment, Instance, OrchestratorItem, OrchestratorItemKey, WorkerItem,
};
use cdb_provider::model::policy::IndexingPolicy;
use cdb_provider::model::stored::{decode_any, encode};
use cdb_provider::model::{Batch, Container, Document as _, DocumentKey, ETag, Timestamp};
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

/// A step: its name and function.
pub struct Step {
    pub name: &'static str,
    run: Box<dyn Fn()>,
}

impl Step {
    /// Runs the step once.
    pub fn run(&self) {
        (self.run)();
    }
}

/// All steps.
pub fn steps() -> Vec<Step> {
    let step = |name, run: Box<dyn Fn()>| Step { name, run };
    let (instance, segment, item) = (instance(), segment(10), worker_item());
    let key = OrchestratorItemKey {
        instance_id: INSTANCE.to_owned(),
        cause: OrchestratorItem::completion_cause(1, 17),
    };
    let stored_instance = stored(&instance);
    let stored_segment = stored(&segment);
    vec![
        step(
            "id formatting",
            Box::new(move || {
                black_box(black_box(&key).to_id()).expect("the id is legal");
            }),
        ),
        step(
            "policy merge",
            Box::new(|| {
                black_box(IndexingPolicy::of::<Durable>());
            }),
        ),
        step(
            "batch encoding",
            Box::new(move || {
                black_box(batch(
                    black_box(&instance),
                    black_box(&segment),
                    black_box(&item),
                ));
            }),
        ),
        step(
            "document decoding: instance",
            Box::new(move || decode(&stored_instance)),
        ),
        step(
            "document decoding: history of 10 events",
            Box::new(move || {
                decode(&stored_segment);
            }),
        ),
        step("history unpacking: 10 events", {
            let segment = self::segment(10);
            Box::new(move || {
                let events = HistorySegment::unpack(black_box(segment.event_data.header()));
                black_box(events).expect("the events are JSON");
            })
        }),
    ]
}

const INSTANCE: &str = "order-2024-000017";

fn decode(json: &str) {
    black_box(decode_any::<Durable>(black_box(json))).expect("the document is one of ours");
}

/// The commit of a turn: the instance, the events, an activity, the consumed message.
fn batch(instance: &Instance, segment: &HistorySegment, item: &WorkerItem) -> Vec<u8> {
    let mut batch = Batch::<Durable>::new(INSTANCE);
    let consumed = OrchestratorItemKey {
        instance_id: INSTANCE.to_owned(),
        cause: "start".to_owned(),
    };
    let etag = ETag::new("\"0000-1111\"");
    let added = [
        batch.add(instance.replace().if_match(&etag)),
        batch.add(segment.create()),
        batch.add(item.create()),
        batch.add(consumed.delete()),
    ];
    assert!(added.iter().all(Result::is_ok), "four small operations fit");
    serde_json::to_vec(&*batch.operations_at(Timestamp::default())).expect("a batch is JSON")
}

fn instance() -> Instance {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let mut instance = Instance::pending(INSTANCE, now);
    "OrderFulfilment".clone_into(&mut instance.orchestration_name);
    instance.orchestration_version = Some("1.0.0".to_owned());
    instance.lock_token = Some("4b1c9a5e-7f56-4c5e-9c63-5d9c1a2f3b4d".to_owned());
    instance.locked_until = Some(now);
    instance
}

fn segment(events: u64) -> HistorySegment {
    let event = |id| {
        let kind = EventKind::ActivityScheduled {
            name: "Charge".to_owned(),
            input: "{\"amount\":1299,\"currency\":\"EUR\"}".to_owned(),
            session_id: None,
            tag: None,
        };
        Event::with_event_id(id, INSTANCE, 1, None, kind)
    };
    let events: Vec<Event> = (1..=events).map(event).collect();
    HistorySegment::pack(INSTANCE, 1, &events)
        .expect("events are JSON")
        .expect("there are events")
}

fn worker_item() -> WorkerItem {
    let item = WorkItem::ActivityExecute {
        instance: INSTANCE.to_owned(),
        execution_id: 1,
        id: 17,
        name: "Charge".to_owned(),
        input: "{\"amount\":1299,\"currency\":\"EUR\"}".to_owned(),
        session_id: None,
        tag: None,
    };
    let item = WorkerItem::new(&item, Timestamp::from_millis(1_700_000_000_000));
    item.expect("an activity is JSON")
        .expect("it is an activity")
}

/// As the service returns it, with its own properties behind ours.
fn stored<D: cdb_provider::model::container::MemberOf<Durable>>(document: &D) -> String {
    let encoded =
        encode::<Durable, D>(document, Timestamp::default()).expect("the document can be stored");
    let json = encoded.json.get().trim_end_matches('}').to_owned();
    assert_eq!(Durable::DISCRIMINATOR, "type");
    json + r#","_rid":"AAAA","_self":"dbs/a","_etag":"\"0000-1111\"","_attachments":"attachments/","_ts":1700000000}"#
}
