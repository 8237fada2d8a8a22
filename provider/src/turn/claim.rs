//! The right of one dispatcher of this process to try an instance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cdb_model::Timestamp;
use duroxide::providers::DispatcherCapabilityFilter;

use super::candidate::supports;
use crate::provider::Inner;

/// Given back on drop, unless the lock was won.
pub(super) struct Claim<'a> {
    inner: &'a Inner,
    pub(super) instance_id: String,
    pub(super) number: u64,
    kept: bool,
}

impl<'a> Claim<'a> {
    /// `None` while another dispatcher of this process has the instance, or while it is avoided.
    pub(super) fn try_new(
        inner: &'a Inner,
        instance_id: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
        wish: Wish,
    ) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let now = inner.container.now();
        inner
            .turns
            .claim(
                instance_id,
                (now, now + lock_timeout),
                number,
                wish,
                |pinned| supports(filter, pinned),
            )
            .then(|| Self {
                inner,
                instance_id: instance_id.to_owned(),
                number,
                kept: false,
            })
    }

    /// Nobody here looks at the instance for `duration`.
    pub(super) fn avoid(&self, duration: Duration) {
        let now = self.inner.container.now();
        self.inner
            .turns
            .avoid(&self.instance_id, (now, now + duration));
        self.inner.hint_unknown(&self.instance_id, None, duration);
    }

    /// Nobody here looks at the instance for a while, longer each time: it cannot be worked on, for all that is known from
    /// messages due until `newest`.
    pub(super) fn avoid_unfit(&self, newest: Timestamp, pinned: Option<u64>) {
        let now = self.inner.container.now();
        let turns = &self.inner.turns;
        // A poll finds it again then, behind what is new.
        turns.avoid_unfit(&self.instance_id, now, newest, pinned);
    }

    /// Nobody here looks at the instance for `duration`, and nobody is reminded of it afterwards.
    pub(super) fn leave(&self, duration: Duration) {
        let now = self.inner.container.now();
        let until = (now, now + duration);
        self.inner.turns.avoid(&self.instance_id, until);
    }

    pub(super) fn lasts_until(&self, until: Timestamp) {
        self.inner
            .turns
            .extend(&self.instance_id, self.number, until);
    }

    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.inner.release_instance(&self.instance_id, self.number);
        }
    }
}

/// What somebody wants who finds an instance claimed, to be done when it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// Nothing.
    #[default]
    None,
    /// That its known messages are worked on.
    Known,
    /// That its partition is searched.
    Search,
}
