//! The length and age of the queues, and the slots of the oldest messages.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::Result;
use cdb_model::{Query, Timestamp};
use serde::Serialize;

use super::json;
use super::keys::{KeysInUse, Permits};
use super::limits;
use super::running::{self, BusyRuntime};
use super::sample::{self, Container, Oldest};
use super::unstarted::{self, Unstarted};
use crate::operate::limits::rules;
use crate::operate::metrics::count;
use crate::stored::documents::{
    Limits, NEVER, OrchestratorItem, OutboxIntent, PAUSED, Rule, WorkerItem,
};
use crate::timing::{HIDDEN_START, OVERDUE_WORK, UNSERVED};

/// The number of oldest due messages from which the slots are computed.
pub(super) const MESSAGES: u32 = 1_000;

/// The queues of a container.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Queues {
    /// Due messages for orchestrations.
    pub messages: Waiting,
    /// Messages with a later due time: timers and delayed messages.
    pub timers: u64,
    /// Due activities that no worker has locked.
    pub activities: Waiting,
    /// Activities that a worker has locked, or that are due later.
    pub running: u64,
    /// The running activities by runtime, while due ones have waited for more than 5 s.
    pub busy: Vec<BusyRuntime>,
    /// Undelivered messages to other instances, without dead letters.
    pub outbox: Waiting,
    /// The dispatch slots of the 1,000 oldest due messages; the slot with the oldest one comes first.
    pub slots: Vec<DueSlot>,
    /// The limited keys, while there are limits of what runs or starts.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub limited: Option<KeysInUse>,
    /// The service's time of the answer.
    #[serde(skip)]
    pub now: Timestamp,
}

/// The due items of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The number of items.
    pub count: u64,
    /// The time since the oldest item became due.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "json::some_milliseconds",
        rename = "oldestMs"
    )]
    pub oldest: Option<Duration>,
}

/// The due messages of a dispatch slot.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DueSlot {
    /// The number of the slot.
    #[serde(rename = "slot")]
    pub number: u8,
    /// The number of its messages.
    pub due: usize,
    /// The time since the oldest of them became due.
    #[serde(serialize_with = "json::milliseconds", rename = "oldestMs")]
    pub oldest: Duration,
}

impl Queues {
    /// Returns the age of the oldest due activity that no limit holds back.
    pub fn unlimited(&self) -> Option<Duration> {
        let limited = self.limited.as_ref();
        limited.map_or(self.activities.oldest, |limited| limited.unlimited)
    }

    /// Returns the age of the oldest due activity that no limit holds back, if it is overdue: due for more than a
    /// minute.
    pub fn overdue_activities(&self) -> Option<Duration> {
        self.unlimited().filter(|age| *age > OVERDUE_WORK)
    }

    /// Returns the slots with overdue messages.
    pub fn overdue_slots(&self) -> impl Iterator<Item = &DueSlot> {
        let slots = self.slots.iter();
        slots.filter(|slot| slot.oldest > OVERDUE_WORK)
    }
}

impl Waiting {
    /// Returns the age of the oldest item, if it is overdue: due for more than a minute, although idle runtimes poll
    /// every 1.25 s.
    pub fn overdue(&self) -> Option<Duration> {
        self.oldest.filter(|age| *age > OVERDUE_WORK)
    }
}

/// What an answer about the queues is computed from.
pub(super) struct Look {
    pub(super) now: Timestamp,
    pub(super) limits: Option<Limits>,
    /// The permits of limited keys, if there are limits of what runs or starts.
    pub(super) permits: Option<Permits>,
    /// The oldest messages: due ones, and of a wide look, or with limits of starts, those that duroxide may hide.
    pub(super) messages: Oldest<OrchestratorItem>,
    /// The activities that are due first. Of a wide look, not only due ones.
    pub(super) activities: Oldest<WorkerItem>,
    counts: [u64; 5],
    oldest_intent: Option<Timestamp>,
}

/// What a look reads of the queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// What the lengths and ages of the queues need.
    Due,
    /// What also shows stuck work: so many activities, if no limit needs more.
    Stuck(u32),
}

impl Look {
    pub(super) async fn at(container: &Container, width: Width) -> Result<Self> {
        let limits = rules::read(container).await?.map(|stored| stored.document);
        let now = container.now();
        let rules = limits.as_ref().map_or(&[][..], |limits| &limits.rules);
        let is_capped = rules.iter().any(Rule::is_cap);
        let is_wide = width != Width::Due;
        let until = if is_wide || unstarted::may_wait(limits.as_ref()) {
            now + HIDDEN_START
        } else {
            now
        };
        let (activities, most) = match width {
            Width::Due if is_capped => (sample::due_activities(now), limits::SAMPLE),
            Width::Due => (sample::due_activities(now), 1),
            Width::Stuck(_) if !rules.is_empty() => (sample::all_activities(), limits::SAMPLE),
            Width::Stuck(most) => (sample::all_activities(), most),
        };
        let permits = async {
            if is_capped || is_wide && !rules.is_empty() {
                Permits::read(container).await.map(Some)
            } else {
                Ok(None)
            }
        };
        // Boxed: the future of so many concurrent queries is too large for the stack.
        let (counts, oldest_intent, messages, activities, permits) = futures::try_join!(
            Box::pin(counts(container, now)),
            Box::pin(oldest_intent(container)),
            Box::pin(sample::messages(container, until, MESSAGES)),
            Box::pin(sample::activities(container, activities, most)),
            Box::pin(permits),
        )?;
        Ok(Self {
            now,
            limits,
            permits,
            messages,
            activities,
            counts,
            oldest_intent,
        })
    }

    /// Computes the answer, with the instances whose start is queued, and without the running activities.
    pub(super) fn queues(&self, starts: &[Unstarted]) -> Queues {
        let now = self.now;
        let [messages, timers, free, running, outbox] = self.counts;
        let due = || {
            let activities = self.activities.items.iter();
            activities.take_while(|item| item.visible_at <= now)
        };
        let limits = self.limits.as_ref();
        let limits = limits.filter(|limits| limits.rules.iter().any(Rule::is_cap));
        let limited = limits
            .zip(self.permits.as_ref())
            .map(|(limits, permits)| KeysInUse::of(limits, permits, due(), starts, now));
        let slots = slots(&self.messages.items, now);
        let waiting = |count, oldest| Waiting { count, oldest };
        let since = |at: Timestamp| now.since(at);
        Queues {
            messages: waiting(messages, slots.iter().map(|slot| slot.oldest).max()),
            timers,
            activities: waiting(free, due().next().map(|item| since(item.visible_at))),
            running,
            busy: Vec::new(),
            outbox: waiting(outbox, self.oldest_intent.map(since)),
            slots,
            limited,
            now,
        }
    }
}

/// Reads the queues.
pub(super) async fn read(container: &Container) -> Result<Queues> {
    let look = Look::at(container, Width::Due).await?;
    let limits = look.limits.as_ref();
    let starts = if unstarted::may_wait(limits) {
        unstarted::among(container, &look.messages.items, limits, look.now).await?
    } else {
        Vec::new()
    };
    let mut queues = look.queues(&starts);
    if has_waited(&queues) {
        queues.busy = running::read(container, look.now).await?;
    }
    Ok(queues)
}

/// Returns whether due activities have waited so long that the running ones are of interest.
pub(super) fn has_waited(queues: &Queues) -> bool {
    queues.unlimited().is_some_and(|age| age > UNSERVED)
}

/// Counts due and later messages, free and locked activities, and undelivered intents.
async fn counts(container: &Container, now: Timestamp) -> Result<[u64; 5]> {
    let due_at = OrchestratorItem::VISIBLE_AT;
    let (due, later, free, taken, outbox) = futures::try_join!(
        count(container, sample::are_due(now)),
        count(container, due_at.gt(now) & due_at.lt(PAUSED)),
        count(container, sample::due_activities(now)),
        count(container, WorkerItem::VISIBLE_AT.gt(now)),
        count(container, OutboxIntent::CREATED_AT.lt(NEVER)),
    )?;
    Ok([due, later, free, taken, outbox])
}

/// Returns the creation of the oldest undelivered intent. Dead letters are later than all others.
async fn oldest_intent(container: &Container) -> Result<Option<Timestamp>> {
    let intents = Query::<OutboxIntent>::across_partitions();
    let oldest = intents
        .filter(OutboxIntent::CREATED_AT.lt(NEVER))
        .order_by(OutboxIntent::BY_CREATED)
        .limit(1)
        .values(OutboxIntent::CREATED_AT);
    container.query(oldest).first().await
}

/// Groups due messages by slot, the slot with the oldest message first.
fn slots(messages: &[OrchestratorItem], now: Timestamp) -> Vec<DueSlot> {
    let mut by_slot: BTreeMap<u8, DueSlot> = BTreeMap::new();
    let due = messages
        .iter()
        .take_while(|message| message.visible_at <= now);
    for message in due {
        let age = now.since(message.visible_at);
        let slot = message.dispatch_slot;
        let entry = by_slot.entry(slot).or_insert(DueSlot {
            number: slot,
            due: 0,
            oldest: age,
        });
        entry.due += 1;
        entry.oldest = entry.oldest.max(age);
    }
    let mut slots: Vec<DueSlot> = by_slot.into_values().collect();
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.oldest));
    slots
}
