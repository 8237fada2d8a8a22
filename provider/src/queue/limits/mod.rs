//! Limits of activities: the protocol, and the rules that this process knows.

pub(crate) mod protocol;

use cdb_model::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::activities::ActivityQueue;
use super::instances::InstanceQueue;
use crate::stored::documents::Limits;
use crate::timing::LIMITS_SEARCH;

/// Whether to look for newer rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// A probe or a read has looked for them.
    Recent,
    /// The last look is older than [`LIMITS_SEARCH`].
    Due,
}

/// The newest rules that this process has read.
#[derive(Debug, Default)]
pub(crate) struct KnownLimits {
    /// The time of their change.
    changed_at: Mutex<Option<Timestamp>>,
    /// When this process has last seen that there are no newer ones.
    checked_at: Mutex<Option<Instant>>,
}

impl KnownLimits {
    /// Returns the time of the last change that is known. Probes look for a later one.
    pub(crate) fn changed_at(&self) -> Timestamp {
        self.changed_at.lock().unwrap_or_default()
    }

    /// Notes that there were no newer rules at `at`.
    pub(crate) fn checked(&self, at: Instant) {
        let mut checked_at = self.checked_at.lock();
        *checked_at = (*checked_at).max(Some(at));
    }

    /// Returns whether it is time to look for newer rules. The caller does so.
    #[must_use = "the caller reads the rules"]
    pub(crate) fn take_check(&self) -> Check {
        let now = Instant::now();
        let mut checked_at = self.checked_at.lock();
        if checked_at.is_some_and(|at| at + LIMITS_SEARCH > now) {
            return Check::Recent;
        }
        *checked_at = Some(now);
        Check::Due
    }

    /// Applies rules to the activities and turns of this process, unless it knows newer ones.
    pub(super) fn apply(
        &self,
        activities: &ActivityQueue,
        instances: &InstanceQueue,
        limits: &Limits,
    ) {
        let mut changed_at = self.changed_at.lock();
        if *changed_at >= Some(limits.visible_at) {
            return;
        }
        *changed_at = Some(limits.visible_at);
        let queue = activities.local();
        let version = i64::try_from(limits.visible_at.as_millis()).unwrap_or(i64::MAX);
        queue.with(|queue, now| queue.set_rules(limits.rules.clone(), version, now));
        instances.set_rules(&limits.rules, version);
        tracing::info!(rules = limits.rules.len(), "the limits have changed");
        instances.warn_of_unknown_labels(&limits.rules);
    }
}
