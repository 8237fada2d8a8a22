//! Polls of the orchestrator queue.

use std::hash::BuildHasher as _;

use cdb_client::partitions::PhysicalPartitionId;
use cdb_model::document::{Indexed, Patchable, Path};
use cdb_model::query::Filter;
use cdb_model::{Query, Stored, Timestamp};
use tokio::time::Instant;

use super::known::Instances;
use super::message::Message;
use super::unfit::Readiness;
use crate::queue::Services;
use crate::queue::local_queue::{LocalQueue, Work};
use crate::queue::poll::{Noted, Poll, Polled, PolledQueue};
use crate::stored::documents::{OrchestratorItem, dispatch_slot};

/// The messages of all instances, which a poll finds: dispatchers choose by the pinned version, which
/// messages do not contain.
#[derive(Debug)]
pub(crate) struct AllMessages;

impl Polled for Instances {
    type Item = OrchestratorItem;
    type Wanted = AllMessages;

    const QUEUE: PolledQueue = PolledQueue::Orchestrations;
    const VISIBLE_AT: Path<OrchestratorItem, Timestamp, Indexed, Patchable> =
        OrchestratorItem::VISIBLE_AT;
    const SLOT: Path<OrchestratorItem, u8, Indexed, Patchable> = OrchestratorItem::DISPATCH_SLOT;

    fn queue(services: &Services) -> &LocalQueue<Self> {
        services.instances().local()
    }

    fn wanted(_: &LocalQueue<Self>) -> Option<AllMessages> {
        Some(AllMessages)
    }

    fn query(_: &AllMessages, due: Filter<OrchestratorItem>) -> Query<OrchestratorItem> {
        let query = Query::across_partitions().filter(due);
        query.order_by(OrchestratorItem::BY_DUE)
    }

    fn visible_at(item: &OrchestratorItem) -> Timestamp {
        item.visible_at
    }

    fn note(poll: &Poll<'_, Self>, stored: Stored<Self::Item>, sent_at: Instant) -> Noted<String> {
        let instance_id = stored.document.instance_id.clone();
        let message = Message::read(stored, sent_at);
        let instances = poll.services.instances();
        let (readiness, runs) = instances.found(poll.number, poll.enough, message);
        Noted {
            key: (readiness != Readiness::Backoff).then_some(instance_id),
            runs,
        }
    }

    fn covers(_: &AllMessages, _: &<Self as Work>::Known) -> bool {
        true
    }

    /// Runtimes find the same messages, and race for locks if they start with the same instances.
    /// So each runtime starts with its cached instances, then those of its share, each in an order
    /// of its own. Instances that it could not process before come last.
    fn sort(poll: &Poll<'_, Self>, range: &PhysicalPartitionId, found: &mut [String]) {
        let queues = &poll.services.queues;
        found.sort_by_cached_key(|id| {
            let (is_unfit, is_cached) = queues.instances.preference(id);
            let is_foreign = !poll.share.has(range, dispatch_slot(id));
            let hash = queues.scatter.hash_one(id);
            (is_unfit, !is_cached, is_foreign, hash)
        });
    }
}
