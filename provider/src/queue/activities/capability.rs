//! The requests of workers, the activities that a poll for them finds, and the key of an activity.

use std::collections::BTreeSet;
use std::sync::Arc;

use cdb_model::query::Filter;
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

    /// Returns whether this worker, or one like it that holds the session, can take the activity.
    pub(crate) fn suits(&self, item: &WorkerItem) -> bool {
        let takes_session = || self.session.is_some() && !self.sessions.is_held_elsewhere(item);
        self.tags.matches(item.tag.as_deref()) && (item.session_id.is_none() || takes_session())
    }

    /// Returns whether an activity can be locked for this worker without a session.
    pub(crate) fn takes_without_session(&self, item: &WorkerItem) -> bool {
        item.session_id.is_none() && self.tags.matches(item.tag.as_deref())
    }
}

/// The activities that any of several workers can take.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    capabilities: Vec<WorkerCapability>,
    any_tag: bool,
    untagged: bool,
    tags: BTreeSet<String>,
    sessions: bool,
}

impl Scope {
    /// Returns the union of the workers' requests.
    pub(crate) fn of(capabilities: Vec<WorkerCapability>) -> Self {
        let mut scope = Self::default();
        for request in &capabilities {
            scope.sessions |= request.session.is_some();
            match &request.tags {
                TagFilter::Any => scope.any_tag = true,
                TagFilter::None => {}
                TagFilter::DefaultOnly => scope.untagged = true,
                TagFilter::Tags(tags) => scope.tags.extend(tags.iter().cloned()),
                TagFilter::DefaultAnd(tags) => {
                    scope.untagged = true;
                    scope.tags.extend(tags.iter().cloned());
                }
            }
        }
        Self {
            capabilities,
            ..scope
        }
    }

    /// Returns whether no activity is requested.
    pub(crate) fn is_empty(&self) -> bool {
        !self.any_tag && !self.untagged && self.tags.is_empty()
    }

    /// Returns whether a poll of this scope finds the activity.
    pub(crate) fn covers(&self, item: &WorkerItem) -> bool {
        let has_tag = match &item.tag {
            _ if self.any_tag => true,
            Some(tag) => self.tags.contains(tag),
            None => self.untagged,
        };
        has_tag && (self.sessions || item.session_id.is_none())
    }

    /// Returns whether one of the workers can take the activity now.
    pub(crate) fn has_taker(&self, item: &WorkerItem) -> bool {
        self.capabilities.iter().any(|request| request.takes(item))
    }

    /// Restricts the filter of a poll to this scope.
    pub(crate) fn filter(&self, free: Filter<WorkerItem>) -> Filter<WorkerItem> {
        // `duroxide-cdb` omits the fields, this crate writes null.
        let untagged = || WorkerItem::TAG.is_none();
        let tagged = || WorkerItem::TAG.is_in(self.tags.iter().cloned().map(Some));
        let free = match (self.any_tag, self.untagged, self.tags.is_empty()) {
            (true, ..) => free,
            (_, true, true) => free & untagged(),
            (_, true, false) => free & (untagged() | tagged()),
            (_, false, _) => free & tagged(),
        };
        if self.sessions {
            return free;
        }
        free & WorkerItem::SESSION_ID.is_none()
    }
}
