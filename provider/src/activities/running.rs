//! An activity that a worker of this process runs.

use std::sync::Arc;

use cdb_model::{ETag, Stored, Timestamp};
use tokio::sync::Mutex as AsyncMutex;

use super::ask::WorkerAsk;
use crate::documents::WorkerItem;
use crate::local_queue::Ask;

/// An activity that this process has locked.
#[derive(Debug)]
pub(crate) struct WorkLock {
    pub(crate) token: String,
    /// The item as locked: its ETag is the one that renewal and end are conditional on.
    pub(crate) item: Stored<WorkerItem>,
    /// What the worker asks for that runs it; nothing for somebody who looks once.
    pub(crate) ask: Option<Ask<WorkerAsk>>,
    /// The last renewal failed, and not because the lock is lost.
    pub(crate) unanswered: bool,
    /// Ended, abandoned or lost. A second call with the same token waited for the first one and comes too late.
    pub(crate) ended: bool,
}

impl WorkLock {
    /// An activity that was just locked.
    pub(super) fn new(item: Stored<WorkerItem>, ask: Option<Ask<WorkerAsk>>) -> Self {
        Self {
            token: item.document.lock_token.clone().unwrap_or_default(),
            item,
            ask,
            unanswered: false,
            ended: false,
        }
    }

    /// Whether the lock still holds at `now`.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.ended
            && self
                .item
                .document
                .locked_until
                .is_some_and(|until| until > now)
    }

    /// A write of ours succeeded and gave the item this version.
    pub(crate) fn advance(&mut self, item: WorkerItem, etag: ETag) {
        self.item.document = item;
        self.item.etag = etag;
    }
}

/// A lock in the table. Renewal and end both move its ETag, so they take turns.
pub(crate) type SharedLock = Arc<AsyncMutex<WorkLock>>;
