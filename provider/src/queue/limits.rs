//! The rules that this process knows.

use cdb_model::Timestamp;
use parking_lot::Mutex;

use super::activities::ActivityQueue;
use crate::stored::documents::Limits;

/// The newest rules that this process has read.
#[derive(Debug, Default)]
pub(crate) struct KnownLimits {
    /// The time of their change.
    changed_at: Mutex<Option<Timestamp>>,
}

impl KnownLimits {
    /// Returns the time of the last change that is known. Probes look for a later one.
    pub(crate) fn changed_at(&self) -> Timestamp {
        self.changed_at.lock().unwrap_or_default()
    }

    /// Applies rules to the activities of this process, unless it knows newer ones.
    pub(crate) fn apply(&self, activities: &ActivityQueue, limits: &Limits) {
        let mut changed_at = self.changed_at.lock();
        if *changed_at >= Some(limits.visible_at) {
            return;
        }
        *changed_at = Some(limits.visible_at);
        let queue = activities.local();
        queue.with(|queue, now| queue.set_rules(limits.rules.clone(), now));
        tracing::info!(
            rules = limits.rules.len(),
            "the limits of activities have changed"
        );
    }
}
