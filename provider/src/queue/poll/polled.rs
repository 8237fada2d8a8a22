//! A queue that polls fill: the query of its polls, and the use of a row.

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::search::Runs;
use cdb_model::document::{Indexed, Patchable, Path};
use cdb_model::query::{Filter, QueriedIn};
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Stored, Timestamp};
use tokio::time::Instant;

use super::share::{Part, PolledQueue, Share};
use crate::queue::Services;
use crate::queue::local_queue::{LocalQueue, PollNumber, Work};
use crate::stored::documents::{Durable, Partial};
use crate::timing::OVERDUE_AFTER;

/// A queue that polls fill.
pub(crate) trait Polled: Work {
    /// The document of an item.
    type Item: Partial + QueriedIn<Durable>;
    /// The items that the waiting dispatchers can process.
    type Wanted: Send + Sync;

    const QUEUE: PolledQueue;
    const VISIBLE_AT: Path<Self::Item, Timestamp, Indexed, Patchable>;
    const SLOT: Path<Self::Item, u8, Indexed, Patchable>;

    /// Returns the filter for the items of a share that are due between two times.
    fn due_in(part: &Part<'_>, from: Timestamp, now: Timestamp) -> Filter<Self::Item> {
        let overdue = || Self::VISIBLE_AT.between(from, now - OVERDUE_AFTER);
        match part {
            Part::All => Self::VISIBLE_AT.between(from, now),
            Part::Overdue => overdue(),
            Part::Slots {
                slots,
                overdue: has_overdue,
            } => {
                let own = Self::VISIBLE_AT.between(from, now) & Self::SLOT.is_in(slots.iter());
                if *has_overdue { own | overdue() } else { own }
            }
        }
    }

    fn queue(services: &Services) -> &LocalQueue<Self>;

    /// Returns the items that the waiting dispatchers can process; `None` without any.
    fn wanted(queue: &LocalQueue<Self>) -> Option<Self::Wanted>;

    /// Returns the query for due items, oldest first.
    fn query(wanted: &Self::Wanted, due: Filter<Self::Item>) -> Query<Self::Item>;

    /// Returns the due time of an item.
    fn visible_at(item: &Self::Item) -> Timestamp;

    /// Returns the due time of a row, decoded or not.
    fn due_of(row: &Row<Self>) -> Option<Timestamp> {
        match row {
            Ok(stored) => Some(Self::visible_at(&stored.document)),
            Err(found) => found.field(Self::VISIBLE_AT),
        }
    }

    /// Notes a polled item, decoded in part if its document is corrupt.
    fn note(poll: &Poll<'_, Self>, item: Stored<Self::Item>, sent_at: Instant) -> Noted<Self::Key>;

    /// Returns whether a poll finds the known item if it is due.
    fn covers(wanted: &Self::Wanted, known: &Self::Known) -> bool;

    /// Sorts the found items into the order in which this process tries them.
    fn sort(poll: &Poll<'_, Self>, range: &PhysicalPartitionId, found: &mut [Self::Key]);
}

/// A polled document, decoded or not.
pub(crate) type Row<Q> = Result<Stored<<Q as Polled>::Item>, Unreadable>;

/// The use of a polled row.
#[derive(Debug)]
pub(crate) struct Noted<K> {
    /// The item, if a dispatcher may take it.
    pub(crate) key: Option<K>,
    /// Whether a dispatcher can take the item now.
    pub(crate) runs: Runs,
}

/// One poll.
pub(crate) struct Poll<'a, Q: Polled> {
    pub(crate) services: &'a Services,
    pub(crate) number: PollNumber,
    pub(crate) wanted: &'a Q::Wanted,
    pub(crate) share: Share,
    /// The items that can run, of which a poll finds at least as many in each physical partition.
    pub(crate) enough: u32,
    /// The time from which on the items have become due that the poll looks for; `None` for all.
    pub(crate) since: Option<Timestamp>,
}
