//! The requests of workers, and the key of an activity.

use std::sync::Arc;

use duroxide::providers::{SessionFetchConfig, TagFilter};

use crate::queue::session::Sessions;
use crate::stored::documents::{WorkerItem, WorkerItemKey};

/// Identifies an activity.
pub(crate) type ActivityKey = WorkerItemKey;

/// The activities that a worker can run.
#[derive(Clone, Debug)]
pub(crate) struct WorkerCapability {
    pub(crate) tags: TagFilter,
    /// `None`: the worker runs no activities of sessions.
    pub(crate) session: Option<SessionFetchConfig>,
    pub(crate) sessions: Arc<Sessions>,
}

impl WorkerCapability {
    pub(crate) fn takes(&self, item: &WorkerItem) -> bool {
        self.tags.matches(item.tag.as_deref())
            && self.sessions.may_fetch(item, self.session.as_ref())
    }

    /// Returns whether an activity can be locked for this worker without a session.
    pub(crate) fn takes_without_session(&self, item: &WorkerItem) -> bool {
        item.session_id.is_none() && self.tags.matches(item.tag.as_deref())
    }
}
