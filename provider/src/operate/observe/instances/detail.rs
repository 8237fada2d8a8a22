//! One instance: its state and the documents of its partition.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cdb_model::query::Filter;
use cdb_model::{Query, Stored, Timestamp};
use serde::Serialize;

use super::super::keys::{self, KeyUse};
use super::super::sample::{self, Container};
use super::message::describe;
use super::row::{ObservedInstance, StoredText, key, readable};
use super::wait::{self, Wait};
use crate::error::Result;
use crate::operate::limits::rules;
use crate::stored::Store;
use crate::stored::documents::{
    Durable, Execution, Instance, KeyValue, KeyValueDelta, KeyValuePack, NEVER, OperatorAction,
    OrchestratorItem, OutboxIntent, Session, WorkerItem, dispatch_slot,
};
use crate::stored::kv::KvState;

/// One instance in detail.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InstanceDetail {
    /// The instance.
    #[serde(flatten)]
    pub instance: ObservedInstance,
    /// The input of the newest execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The result or error of the newest execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<StoredText>,
    /// The end of the dispatcher's lock, while the instance is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    /// Its dispatch slot.
    pub slot: u8,
    /// The operator's change that created the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OperatorAction>,
    /// What it waits for, in the order of its history.
    pub waits: Vec<Wait>,
    /// Earlier executions, newest first.
    pub executions: Vec<PastExecution>,
    /// The queued messages for it, due first.
    pub messages: Vec<QueuedMessage>,
    /// Its queued and running activities.
    pub activities: Vec<QueuedActivity>,
    /// Undelivered messages to other instances.
    pub outgoing: Vec<OutgoingMessages>,
    /// The key-value store, by key, with the changes of the running execution.
    pub values: Vec<StoredValue>,
    /// The sessions of its activities.
    pub sessions: Vec<SessionOwner>,
    /// The service's time of the answer.
    #[serde(skip)]
    pub now: Timestamp,
}

/// An execution that a later one has replaced.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PastExecution {
    /// The id of the execution.
    pub execution: u64,
    /// How it ended.
    pub status: String,
    /// Its start.
    pub started_at: Timestamp,
    /// Its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The operator's change that replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewound: Option<OperatorAction>,
}

/// A queued message for an instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueuedMessage {
    /// The message in words: `TimerFired #4`.
    pub what: String,
    /// The time at which it is due.
    pub due_at: Timestamp,
    /// How often a runtime has fetched it.
    pub attempts: u32,
}

/// A queued or running activity.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueuedActivity {
    /// The activity in words: `ActivityExecute Charge`.
    pub what: String,
    /// The id of the event that scheduled it.
    pub event: u64,
    /// The time at which it was scheduled.
    pub due_at: Timestamp,
    /// The end of the worker's lock, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    /// How often a worker has fetched it.
    pub attempts: u32,
    /// The tag that routes it to workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The limits that it waits for: those that are used up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<KeyUse>,
}

/// Undelivered messages of one turn to another instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutgoingMessages {
    /// The instance that receives them.
    pub target: String,
    /// The number of messages.
    pub messages: usize,
    /// The time of the turn.
    pub created_at: Timestamp,
    /// How often the delivery was attempted.
    pub attempts: u32,
    /// The key of the dead letter, once delivery has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
}

/// A session and its worker.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionOwner {
    /// The id of the session.
    pub session: String,
    /// The worker.
    pub owner: String,
    /// The end of the lock.
    pub locked_until: Timestamp,
}

/// A value of the key-value store.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoredValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

/// The documents of an instance, without its history.
#[derive(Default)]
struct Owned {
    messages: Vec<Stored<OrchestratorItem>>,
    activities: Vec<WorkerItem>,
    executions: Vec<Execution>,
    outgoing: Vec<OutboxIntent>,
    sessions: Vec<Session>,
    values: KvState,
}

impl Owned {
    async fn read(container: &Container, id: &str) -> Result<Self> {
        let wanted = Filter::<Durable>::of_type::<OrchestratorItem>()
            | Filter::of_type::<WorkerItem>()
            | Filter::of_type::<Execution>()
            | Filter::of_type::<OutboxIntent>()
            | Filter::of_type::<Session>()
            | Filter::of_type::<KeyValue>()
            | Filter::of_type::<KeyValueDelta>()
            | Filter::of_type::<KeyValuePack>();
        let query = Query::<Durable>::in_partition(id).filter(wanted);
        let mut found = Self::default();
        for row in container.query(query).all().await? {
            found.add(row);
        }
        found.values = found.values.unpacked(container).await?;
        Ok(found)
    }

    fn add(&mut self, row: Stored<Durable>) {
        let mut document = None;
        // A document of a variant keeps id, ETag and timestamp of its row.
        let row = row.map(|found| document = Some(found));
        match document {
            Some(Durable::OrchestratorItem(item)) => self.messages.push(row.map(|()| item)),
            Some(Durable::WorkerItem(item)) => self.activities.push(item),
            Some(Durable::Execution(execution)) => self.executions.push(execution),
            Some(Durable::OutboxIntent(intent)) => self.outgoing.push(intent),
            Some(Durable::Session(session)) => self.sessions.push(session),
            Some(value) => self.values.add(row.map(|()| value)),
            None => {}
        }
    }
}

/// Reads an instance and its documents; `None` if it does not exist.
pub(in super::super) async fn read(store: &Store, id: &str) -> Result<Option<InstanceDetail>> {
    let container = &store.container;
    let found = container.read(&key(id)).await?;
    let instance = found.map(|stored| stored.document);
    let Some(instance) = instance.filter(Instance::is_created) else {
        return Ok(None);
    };
    let instance = readable(&store.payloads, instance);
    let row = ObservedInstance::of(instance.clone());
    let awaited = wait::awaited(store, &row).await?;
    let owned = Owned::read(container, id).await?;
    let now = container.now();
    Ok(Some(InstanceDetail {
        slot: dispatch_slot(id),
        input: awaited.input,
        waits: awaited.waits,
        output: instance.output.as_ref().map(StoredText::of),
        locked_until: sample::lock_end(&instance, now),
        messages: queued(store, &owned.messages, &instance),
        activities: activities(store, owned.activities, now).await?,
        executions: past_executions(owned.executions),
        outgoing: owned.outgoing.into_iter().map(undelivered).collect(),
        values: values(store, &owned.values),
        sessions: owned.sessions.into_iter().map(owner).collect(),
        origin: instance.origin.or(instance.forked),
        instance: row,
        now,
    }))
}

/// Returns the queued messages, oldest first. A consumed message is stored with a due time of [`NEVER`].
fn queued(
    store: &Store,
    messages: &[Stored<OrchestratorItem>],
    instance: &Instance,
) -> Vec<QueuedMessage> {
    let waiting = messages
        .iter()
        .filter(|message| message.document.visible_at < NEVER);
    let mut queued: Vec<_> = waiting
        .map(|message| QueuedMessage {
            what: describe(&store.payloads, message.document.work_item.header()),
            due_at: message.document.due_at(),
            attempts: (instance.attempts.get(message.id.as_str()))
                .copied()
                .unwrap_or_default(),
        })
        .collect();
    queued.sort_by_key(|message| message.due_at);
    queued
}

async fn activities(
    store: &Store,
    activities: Vec<WorkerItem>,
    now: Timestamp,
) -> Result<Vec<QueuedActivity>> {
    let limits = limits_of(&store.container, &activities, now).await?;
    let activities = activities.into_iter().zip(limits);
    let described = activities.map(|(item, limits)| QueuedActivity {
        what: describe(&store.payloads, item.work_item.header()),
        event: item.activity_id,
        due_at: item.enqueued_at,
        locked_until: item.locked_until.filter(|until| *until > now),
        attempts: item.attempt_count,
        tag: item.tag,
        session: item.session_id,
        limits,
    });
    Ok(described.collect())
}

/// Returns the used-up limits of each activity that is due and not locked.
async fn limits_of(
    container: &Container,
    activities: &[WorkerItem],
    now: Timestamp,
) -> Result<Vec<Vec<KeyUse>>> {
    let is_waiting = |item: &WorkerItem| {
        item.visible_at <= now && item.locked_until.is_none_or(|until| until <= now)
    };
    let none = || vec![Vec::new(); activities.len()];
    if !activities.iter().any(is_waiting) {
        return Ok(none());
    }
    let Some(rules) = rules::read(container).await? else {
        return Ok(none());
    };
    let mut used_up = keys::used_up(container, &rules.document, activities).await?;
    for (item, limits) in activities.iter().zip(&mut used_up) {
        if !is_waiting(item) {
            limits.clear();
        }
    }
    Ok(used_up)
}

/// Sorts executions, newest first. The service sorts them by id, a text, in which 10 comes before 2.
fn past_executions(mut executions: Vec<Execution>) -> Vec<PastExecution> {
    executions.sort_by_key(|execution| Reverse(execution.execution_id));
    let past = executions.into_iter().map(|execution| PastExecution {
        execution: execution.execution_id,
        status: execution.status.to_string(),
        started_at: execution.started_at,
        completed_at: execution.completed_at,
        rewound: execution.rewound,
    });
    past.collect()
}

fn undelivered(intent: OutboxIntent) -> OutgoingMessages {
    OutgoingMessages {
        // The creation time of a dead letter is `NEVER`.
        dead_letter: (intent.created_at >= NEVER).then_some(intent.idempotency_key),
        target: intent.target_instance_id,
        messages: intent
            .items
            .len()
            .max(usize::from(intent.payload.is_some())),
        created_at: intent.created_at,
        attempts: intent.attempt_count,
    }
}

fn owner(session: Session) -> SessionOwner {
    SessionOwner {
        session: session.session_id,
        owner: session.owner_id,
        locked_until: session.locked_until,
    }
}

fn values(store: &Store, values: &KvState) -> Vec<StoredValue> {
    let mut values: BTreeMap<_, _> = values.visible().into_iter().collect();
    // The instance has the attributes themselves.
    values.remove(KeyValue::SEARCH_ATTRIBUTES);
    let values = values.into_iter().map(|(key, value)| StoredValue {
        key,
        value: store.payloads.readable(value),
    });
    values.collect()
}
