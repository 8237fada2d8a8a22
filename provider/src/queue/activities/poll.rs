//! Polls of the worker queue.

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::search::Runs;
use cdb_model::document::{Indexed, Patchable, Path};
use cdb_model::query::Filter;
use cdb_model::{Query, Stored, Timestamp};
use tokio::time::Instant;

use super::capability::{ActivityKey, Scope};
use super::known::{Activities, KnownActivity};
use crate::queue::Services;
use crate::queue::local_queue::LocalQueue;
use crate::queue::poll::{Noted, Poll, Polled, PolledQueue};
use crate::stored::documents::WorkerItem;

impl Polled for Activities {
    type Item = WorkerItem;
    type Wanted = Scope;

    const QUEUE: PolledQueue = PolledQueue::Activities;
    const VISIBLE_AT: Path<WorkerItem, Timestamp, Indexed, Patchable> = WorkerItem::VISIBLE_AT;
    const SLOT: Path<WorkerItem, u8, Indexed, Patchable> = WorkerItem::DISPATCH_SLOT;

    fn queue(services: &Services) -> &LocalQueue<Self> {
        services.activities().local()
    }

    fn wanted(queue: &LocalQueue<Self>) -> Option<Scope> {
        let scope = Scope::of(queue.with(|queue, _| queue.capabilities()));
        (!scope.is_empty()).then_some(scope)
    }

    fn query(scope: &Scope, due: Filter<WorkerItem>) -> Query<WorkerItem> {
        let query = Query::across_partitions().filter(scope.filter(due));
        query.order_by(WorkerItem::BY_DUE)
    }

    fn visible_at(item: &WorkerItem) -> Timestamp {
        item.visible_at
    }

    /// The worker that locks an undecodable activity fails it.
    fn note(poll: &Poll<'_, Self>, item: Stored<Self::Item>, _: Instant) -> Noted<ActivityKey> {
        let has_taker = poll.wanted.has_taker(&item.document);
        let activities = poll.services.activities();
        let found = activities.found(poll.number, poll.enough, item);
        let (key, runs) = found.unzip();
        Noted {
            runs: runs.filter(|_| has_taker).unwrap_or(Runs::NotNow),
            key,
        }
    }

    fn covers(scope: &Scope, known: &KnownActivity) -> bool {
        known.item().is_none_or(|item| scope.covers(item))
    }

    fn sort(_: &Poll<'_, Self>, _: &PhysicalPartitionId, _: &mut [ActivityKey]) {}
}
