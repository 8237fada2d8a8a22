//! A running activity of this process.

use cdb_model::{Stored, Timestamp};
use tokio_util::sync::CancellationToken;

use super::capability::WorkerCapability;
use crate::queue::local_queue::FetchRequest;
use crate::stored::documents::WorkerItem;

/// An activity that this process has locked.
#[derive(Debug)]
pub(crate) struct WorkLock {
    pub(crate) token: String,
    /// The item as locked. Renewal and acknowledgement are conditional on its ETag.
    pub(crate) item: Stored<WorkerItem>,
    /// The request of the worker that runs the activity.
    pub(crate) request: FetchRequest<WorkerCapability>,
    pub(crate) effects: EffectsState,
    /// Whether the last renewal failed, although the lock is not lost.
    pub(crate) renewal_failed: bool,
    /// Cancelled when the acknowledgement that is under way has ended. It does not lock the activity all the time.
    pub(crate) acknowledging: Option<CancellationToken>,
    /// Acknowledged, abandoned or lost. A second call with the same token waits for the first one
    /// and fails.
    pub(crate) ended: bool,
}

/// The effects of a transactional activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EffectsState {
    /// No batch with effects has taken place.
    None,
    /// The activity has ended with its effects. The runtime has not acknowledged it yet.
    Committed,
    /// The effects could not be committed, or their outcome is unknown. The activity runs again,
    /// and the lock decides.
    Unsettled,
}

impl WorkLock {
    /// Wraps an activity that was just locked.
    pub(crate) fn new(item: Stored<WorkerItem>, request: FetchRequest<WorkerCapability>) -> Self {
        Self {
            token: item.document.lock_token.clone().unwrap_or_default(),
            item,
            request,
            effects: EffectsState::None,
            renewal_failed: false,
            acknowledging: None,
            ended: false,
        }
    }

    /// Returns whether the lock holds at `now`.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        let until = self.item.document.locked_until;
        let has_ended = self.ended || self.effects == EffectsState::Committed;
        !has_ended && until.is_some_and(|until| until > now)
    }
}
