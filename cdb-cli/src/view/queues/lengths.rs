//! The length and age of the queues, and the slots of the oldest messages.
//!
//! Items due before `FIRST_DUE` are not work: they belong to the schema gate for older runtimes.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{
    Durable, FIRST_DUE, NEVER, OrchestratorItem, OutboxIntent, PAUSED, WorkerItem,
};
use futures::try_join;
use serde::Serialize;

use super::limited_keys::{self, LimitedKeys};
use super::running::{self, Busy};
use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::{always_milliseconds, milliseconds, span, table};

/// The number of oldest due messages from which the slots are computed.
const SAMPLE: u32 = 1_000;

/// The age of a due activity from which on the running ones are read: idle workers poll every 1.25 s.
const WAITING: Duration = Duration::from_secs(5);

/// The queues of a container.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queues {
    /// Due messages for orchestrations.
    pub messages: Waiting,
    /// Messages with a later due time: timers and delayed messages.
    pub timers: u64,
    /// Due activities that no worker has locked.
    pub activities: Waiting,
    /// Activities that a worker has locked, or that are due later.
    pub running: u64,
    /// The running activities by runtime, while due ones have waited for some seconds.
    pub busy: Vec<Busy>,
    /// Undelivered messages to other instances.
    pub outbox: Waiting,
    /// The slots of the oldest due messages.
    pub slots: Vec<Slot>,
    /// The limited keys, while there are limits of what runs or starts.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitedKeys>,
    #[serde(skip)]
    pub now: Timestamp,
}

/// The due items of a queue.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    pub count: u64,
    /// The time since the oldest item became due.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "milliseconds",
        rename = "oldestMs"
    )]
    pub oldest: Option<Duration>,
}

/// The due messages of a dispatch slot.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Slot {
    #[serde(rename = "slot")]
    pub number: u8,
    pub due: usize,
    /// The time since the oldest item became due.
    #[serde(serialize_with = "always_milliseconds", rename = "oldestMs")]
    pub oldest: Duration,
}

/// Reads the queues. Each count reads the index of every physical partition.
pub(crate) async fn read(orchestrations: &Orchestrations) -> Result<Queues, Failure> {
    let container = &orchestrations.container;
    let limited = async {
        match orchestrations.provider.limits().await? {
            Some(limits) => limited_keys::read(orchestrations, &limits).await,
            None => Ok(None),
        }
    };
    // Boxed: the future of eight concurrent queries is too large for the stack.
    let counted = Box::pin(async { Ok(count(container).await?) });
    let oldest = Box::pin(async { Ok(oldest(container).await?) });
    let (counts, oldest, limited) = try_join!(counted, oldest, Box::pin(limited))?;
    let [messages, timers, free, running, outbox] = counts;
    let mut queues = Queues {
        busy: Vec::new(),
        now: container.now(),
        messages: Waiting {
            count: messages,
            oldest: oldest.slots.iter().map(|slot| slot.oldest).max(),
        },
        timers,
        activities: Waiting {
            count: free,
            oldest: oldest.activity,
        },
        running,
        outbox: Waiting {
            count: outbox,
            oldest: oldest.intent,
        },
        slots: oldest.slots,
        limited,
    };
    if queues.unlimited().is_some_and(|age| age > WAITING) {
        queues.busy = running::read(container).await?;
    }
    Ok(queues)
}

impl Queues {
    /// Returns the age of the oldest due activity that no limit holds back.
    pub(crate) fn unlimited(&self) -> Option<Duration> {
        let limited = self.limited.as_ref();
        limited.map_or(self.activities.oldest, |limited| limited.unlimited)
    }
}

/// Counts due and later messages, free and locked activities, and undelivered intents.
async fn count(container: &ContainerClient<Durable>) -> Result<[u64; 5], cdb_client::Error> {
    let now = container.now();
    let messages = || Query::<OrchestratorItem>::across_partitions();
    let due = messages().filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now));
    let later = OrchestratorItem::VISIBLE_AT.gt(now) & OrchestratorItem::VISIBLE_AT.lt(PAUSED);
    let later = messages().filter(later);
    let activities = || Query::<WorkerItem>::across_partitions();
    let free = activities().filter(WorkerItem::VISIBLE_AT.between(FIRST_DUE, now));
    let taken = activities().filter(WorkerItem::VISIBLE_AT.gt(now));
    let (due, later, free, taken, outbox) = try_join!(
        container.query(due.count()).all(),
        container.query(later.count()).all(),
        container.query(free.count()).all(),
        container.query(taken.count()).all(),
        container.query(undelivered().count()).all(),
    )?;
    // One count per physical partition.
    Ok([due, later, free, taken, outbox].map(|counts| counts.into_iter().sum()))
}

/// Queries the undelivered intents, without dead letters.
fn undelivered() -> Query<OutboxIntent> {
    Query::across_partitions().filter(OutboxIntent::CREATED_AT.lt(NEVER))
}

/// The age of the oldest items.
struct Oldest {
    slots: Vec<Slot>,
    activity: Option<Duration>,
    intent: Option<Duration>,
}

async fn oldest(container: &ContainerClient<Durable>) -> Result<Oldest, cdb_client::Error> {
    let now = container.now();
    let message = Query::<OrchestratorItem>::across_partitions()
        .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now))
        .order_by(OrchestratorItem::BY_DUE)
        .limit(SAMPLE);
    let activity = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.between(FIRST_DUE, now))
        .order_by(WorkerItem::BY_DUE)
        .limit(1);
    let intent = undelivered().order_by(OutboxIntent::BY_CREATED).limit(1);
    let (messages, activity, intent) = try_join!(
        container.query(message).all(),
        container
            .query(activity.values(WorkerItem::VISIBLE_AT))
            .first(),
        container
            .query(intent.values(OutboxIntent::CREATED_AT))
            .first(),
    )?;
    let messages = messages.into_iter().map(|stored| stored.document);
    let messages = messages.map(|message| (message.dispatch_slot, message.visible_at));
    Ok(Oldest {
        slots: slots(messages, now),
        activity: activity.map(|at| now.since(at)),
        intent: intent.map(|at| now.since(at)),
    })
}

/// Groups due messages by slot, the slot with the oldest message first.
fn slots(messages: impl Iterator<Item = (u8, Timestamp)>, now: Timestamp) -> Vec<Slot> {
    let mut by_slot: BTreeMap<u8, Slot> = BTreeMap::new();
    for (slot, due_at) in messages {
        let age = now.since(due_at);
        let entry = by_slot.entry(slot).or_insert(Slot {
            number: slot,
            due: 0,
            oldest: age,
        });
        entry.due += 1;
        entry.oldest = entry.oldest.max(age);
    }
    let mut slots: Vec<Slot> = by_slot.into_values().collect();
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.oldest));
    slots
}

/// Formats slots as a table.
pub(crate) fn slot_table(slots: &[Slot]) -> String {
    if slots.is_empty() {
        return "no slot has messages due\n".to_owned();
    }
    let rows = slots.iter().map(|slot| {
        vec![
            slot.number.to_string(),
            slot.due.to_string(),
            span(slot.oldest),
        ]
    });
    table(&["SLOT", "DUE", "OLDEST"], &rows.collect::<Vec<_>>())
}
