//! The requests of workers, and the key of an activity.

use std::sync::Arc;

use cdb_client::ContainerClient;
use duroxide::providers::{SessionFetchConfig, TagFilter};

use crate::documents::{Durable, WorkerItem, WorkerItemKey};
use crate::session::Sessions;

/// Identifies an activity.
pub(crate) type ActivityKey = WorkerItemKey;

/// The activities that a worker can run.
#[derive(Clone, Debug)]
pub(crate) struct WorkerCapability {
    pub(super) tags: TagFilter,
    /// `None`: the worker runs no activities of sessions.
    pub(super) session: Option<SessionFetchConfig>,
    pub(super) sessions: Arc<Sessions>,
    /// Used for its clock.
    pub(super) container: ContainerClient<Durable>,
}

impl WorkerCapability {
    pub(super) fn takes(&self, item: &WorkerItem) -> bool {
        let now = self.container.now();
        self.tags.matches(item.tag.as_deref())
            && self.sessions.may_fetch(item, self.session.as_ref(), now)
    }

    /// Returns whether an activity can be locked for this worker without a session.
    pub(super) fn takes_without_session(&self, item: &WorkerItem) -> bool {
        item.session_id.is_none() && self.tags.matches(item.tag.as_deref())
    }
}
