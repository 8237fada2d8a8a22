//! The state of an activity that this process knows.

use std::time::Instant;

use cdb_model::{Stored, Timestamp};

use super::capability::{ActivityKey, WorkerCapability};
use super::running::WorkLock;
use crate::queue::local_queue::{Memory, Offer, Work};
use crate::queue::overhead::ITEM_OVERHEAD;
use crate::stored::documents::{Labels, WorkerItem};

/// The queue type of activities.
#[derive(Debug)]
pub(crate) struct Activities;

/// The last known version of an activity, and the time when it is free.
#[derive(Debug, Default)]
pub(crate) struct KnownActivity {
    seen: Option<(Stored<WorkerItem>, Instant)>,
}

impl KnownActivity {
    /// Notes a version that a worker can take from `free_at` on: at once if the activity was found or
    /// released, or after the delay with which it was abandoned.
    pub(crate) fn note(&mut self, item: Stored<WorkerItem>, free_at: Instant) {
        self.seen = Some((item, free_at));
    }

    /// Forgets the version, because the document may have changed. A poll finds the activity again.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }

    pub(crate) fn item(&self) -> Option<&WorkerItem> {
        self.seen.as_ref().map(|(item, _)| &item.document)
    }
}

impl Work for Activities {
    type Key = ActivityKey;
    type Known = KnownActivity;
    type Attempt = Option<Stored<WorkerItem>>;
    type Lock = Stored<WorkerItem>;
    type Running = WorkLock;
    type Capability = WorkerCapability;

    const IS_SCATTERED: bool = false;

    fn due(known: &KnownActivity) -> Option<Instant> {
        known.seen.as_ref().map(|(_, free_at)| *free_at)
    }

    fn due_since(known: &KnownActivity) -> Option<Timestamp> {
        known.item().map(WorkerItem::waits_since)
    }

    fn accepts(request: &WorkerCapability, offer: Offer<'_, Self>) -> bool {
        match offer {
            Offer::Free(known) => known.item().is_some_and(|item| request.takes(item)),
            Offer::Backoff(_) => false,
            Offer::Locked(item) => request.takes_without_session(&item.document),
        }
    }

    fn suits(request: &WorkerCapability, known: &KnownActivity) -> bool {
        known.item().is_some_and(|item| request.suits(item))
    }

    fn is_alike(request: &WorkerCapability, other: &WorkerCapability) -> bool {
        request.tags == other.tags && request.session.is_some() == other.session.is_some()
    }

    fn is_first(_: &KnownActivity) -> bool {
        false
    }

    fn is_open_in_backoff(_: &KnownActivity) -> bool {
        false
    }

    fn attempt(known: &KnownActivity, _: Instant) -> Self::Attempt {
        known.seen.as_ref().map(|(item, _)| item.clone())
    }

    fn expire(known: &mut KnownActivity, _: Instant) {
        known.forget();
    }

    fn forget_polled(known: &mut KnownActivity) {
        known.forget();
    }

    fn is_forgettable(known: &KnownActivity) -> bool {
        known.seen.is_none()
    }

    fn memory(known: &KnownActivity) -> Memory {
        let bytes = |item: &WorkerItem| item.work_item.header().len() + ITEM_OVERHEAD;
        Memory {
            pending: known.item().map_or(0, bytes),
            cached: 0,
        }
    }

    fn labels(_: &KnownActivity, _: Option<&Labels>) -> Option<Labels> {
        None
    }

    fn evict_cache(_: &mut KnownActivity) -> KnownActivity {
        KnownActivity::default()
    }

    /// A poll finds the activity again.
    fn evict_pending(known: &mut KnownActivity, _: Instant) -> KnownActivity {
        std::mem::take(known)
    }
}
