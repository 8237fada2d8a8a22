//! The documents that a pause withholds and a resumption releases: what is read of them, and how they
//! change.
//!
//! A withheld document has the due time [`PAUSED`], which no poll asks for, and keeps the former one in
//! `paused`. A released one gets a due time again.

use cdb_client::ContainerClient;
use cdb_model::limits::MAX_BATCH_OPERATIONS;
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Patch, Query, Stored, Timestamp};

use crate::error::Result;
use crate::queue::Services;
use crate::queue::activities::lock::withhold_patch;
use crate::stored::documents::{
    Durable, FIRST_DUE, IntentItem, IntentQueue, NEVER, OrchestratorItem, OutboxIntent, PAUSED,
    WorkerItem,
};
use crate::timing::{MESSAGE_RESERVED, MOMENT};
use crate::turn::{ExclusiveTurn, Written};

/// A document that is withheld or released, and the patch that does it.
pub(super) enum DueChange {
    Activity(Stored<WorkerItem>, Patch<WorkerItem>),
    Message(Stored<OrchestratorItem>, Patch<OrchestratorItem>),
}

impl DueChange {
    fn add_to(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        match self {
            Self::Activity(item, patch) => batch.add(patch.at(item)),
            Self::Message(item, patch) => batch.add(patch.at(item)),
        }
        .map(drop)
    }

    pub(super) fn enqueued_at(&self) -> Timestamp {
        match self {
            Self::Activity(item, _) => item.document.enqueued_at,
            Self::Message(item, _) => item.document.enqueued_at,
        }
    }

    /// Returns when the document became due, or will. The time of a damaged one may be lost.
    pub(super) fn due_at(&self) -> Timestamp {
        let (paused, visible_at) = match self {
            Self::Activity(item, _) => (item.document.paused, item.document.visible_at),
            Self::Message(item, _) => (item.document.paused, item.document.visible_at),
        };
        let due_at = paused.unwrap_or(visible_at);
        if due_at == PAUSED {
            self.enqueued_at()
        } else {
            due_at
        }
    }

    /// Adds to the change that the document is due again, unless a worker has it.
    pub(super) fn released(self, again: &DueAgain) -> Self {
        let due_at = again.at(self.due_at());
        match self {
            Self::Activity(item, patch) if item.document.visible_at == PAUSED => {
                Self::Activity(item, patch.set(WorkerItem::VISIBLE_AT, due_at))
            }
            running @ Self::Activity(..) => running,
            Self::Message(item, patch) => {
                Self::Message(item, patch.set(OrchestratorItem::VISIBLE_AT, due_at))
            }
        }
    }
}

/// The times at which released documents are due again. They keep their order. Documents that became
/// due during the pause are due at the resumption, so that they do not look as if they had waited for a
/// runtime.
pub(super) struct DueAgain {
    /// The latest time for those of the past.
    latest: Timestamp,
    /// The different times until then, in order.
    past: Vec<Timestamp>,
}

impl DueAgain {
    pub(super) fn new(latest: Timestamp, due: impl Iterator<Item = Timestamp>) -> Self {
        let mut past: Vec<_> = due.filter(|due| *due <= latest).collect();
        past.sort_unstable();
        past.dedup();
        Self { latest, past }
    }

    /// Returns the time for a document that was due at `due`, never an earlier one: so it is in
    /// order with documents that are still withheld.
    fn at(&self, due: Timestamp) -> Timestamp {
        let later = self.past.len() - self.past.partition_point(|other| *other <= due);
        let later = MOMENT.saturating_mul(later.try_into().unwrap_or(u32::MAX));
        due.max(self.latest - later)
    }
}

/// Returns the patch that withholds an activity, or marks one that runs, so that it is withheld when
/// it would have to run again. Returns `None` if an earlier pause has done so.
pub(super) fn pause_patch(item: &WorkerItem, now: Timestamp) -> Option<Patch<WorkerItem>> {
    if item.paused.is_some() {
        return None;
    }
    let is_locked = item.locked_until.is_some_and(|until| until > now);
    Some(if is_locked {
        Patch::<WorkerItem>::new().set(WorkerItem::PAUSED, Some(now))
    } else {
        withhold_patch(item)
    })
}

/// Writes changes in batches, each on the version of the instance that the batch before it has left.
/// Begins with the latest `time`, because workers take the oldest. Leaves out documents that have
/// changed: the next read finds them.
pub(super) async fn write_all(
    services: &Services,
    turn: &mut ExclusiveTurn,
    mut changes: Vec<DueChange>,
    time: impl Fn(&DueChange) -> Timestamp,
) -> Result<()> {
    changes.sort_by_key(|change| std::cmp::Reverse(time(change)));
    let mut most = MAX_BATCH_OPERATIONS - 1;
    while !changes.is_empty() {
        let count = most.min(changes.len());
        let same = turn.0.instance.document.clone();
        let written = turn.write(services, same, |batch| {
            changes[..count]
                .iter()
                .try_for_each(|change| change.add_to(batch))
        });
        match written.await? {
            Written::Done => drop(changes.drain(..count)),
            Written::Refused(number) => {
                changes.remove(number);
                // Activities of a busy instance keep changing.
                most = (count / 2).max(1);
            }
            Written::Unknown => break,
        }
    }
    Ok(())
}

/// Reads the activities of an instance, with what is readable of damaged ones.
pub(super) async fn activities(
    services: &Services,
    latest: &ContainerClient<Durable>,
    id: &str,
) -> Result<Vec<Stored<WorkerItem>>> {
    let query = Query::<WorkerItem>::in_partition(id);
    let rows = latest.query(query).row_by_row().all().await?;
    Ok(services.store.corrupt_documents.in_part(rows))
}

/// Reads the messages of an instance that are due or withheld, with what is readable of damaged
/// ones.
pub(super) async fn messages(
    services: &Services,
    latest: &ContainerClient<Durable>,
    id: &str,
) -> Result<Vec<Stored<OrchestratorItem>>> {
    let query = Query::<OrchestratorItem>::in_partition(id);
    let due =
        OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, services.store.now() + MESSAGE_RESERVED);
    let query = query.filter(due | OrchestratorItem::VISIBLE_AT.eq(PAUSED));
    let rows = latest.query(query).row_by_row().all().await?;
    Ok(services.store.corrupt_documents.in_part(rows))
}

/// Returns whether a process has reserved messages of an instance. With these it may begin a turn
/// without a lock, so the pause has to wait for it.
pub(super) async fn has_reserved(
    services: &Services,
    latest: &ContainerClient<Durable>,
    id: &str,
) -> Result<bool> {
    let now = services.store.now();
    let reserved = OrchestratorItem::VISIBLE_AT.between(now, now + MESSAGE_RESERVED);
    let reserved = Query::<OrchestratorItem>::in_partition(id).filter(reserved);
    let rows = latest.query(reserved).row_by_row().all().await?;
    let mut rows = rows.into_iter().flatten();
    Ok(rows.any(|message| message.document.reserved))
}

/// Returns whether something of an instance is withheld.
pub(super) async fn has_withheld(services: &Services, id: &str) -> Result<bool> {
    let withheld = WorkerItem::VISIBLE_AT.eq(PAUSED).within()
        | OrchestratorItem::VISIBLE_AT.eq(PAUSED).within();
    let withheld = Query::<Durable>::in_partition(id).filter(withheld).count();
    let latest = services.container().latest_committed();
    let counts = latest.query(withheld).all().await?;
    Ok(counts.iter().sum::<u64>() > 0)
}

/// Returns whether an intent is still to deliver activities, which have to be withheld then. Dead
/// letters deliver nothing.
pub(super) async fn has_undelivered_activities(
    services: &Services,
    latest: &ContainerClient<Durable>,
    id: &str,
) -> Result<bool> {
    let waiting = Query::<OutboxIntent>::in_partition(id);
    let waiting = waiting.filter(OutboxIntent::CREATED_AT.lt(NEVER));
    let waiting = latest.query(waiting).row_by_row().all().await?;
    let waiting = services.store.corrupt_documents.readable(waiting);
    Ok(waiting.iter().any(|intent| {
        let intent = &intent.document;
        let mut items = intent.items.iter();
        let is_activity = |item: &IntentItem| item.queue == IntentQueue::Worker;
        intent.more.is_some() || intent.payload.is_some() || items.any(is_activity)
    }))
}
