//! The lease of a process. It covers the permits of all keys: nothing is renewed per key.
//!
//! A process that cannot renew its lease starts nothing, and renews no activity lock beyond it. Others reap its
//! permits once the lease has ended and they have fenced it, so nothing that the permits allowed runs by then.
//! Queries of due items also find leases that have ended, because both are indexed by time. So no runtime reads the
//! leases of others.

use std::time::Duration;

use super::timing::{ITEM_LOCK, LEASE_MARGIN, LEASE_RENEWED, LEASE_RETRIED, LEASE_TERM};
use super::{RuntimeId, Time};

/// The stored lease of a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseDocument {
    pub(crate) until: Time,
    /// Set by another runtime after the end. The lease cannot be renewed afterwards.
    pub(crate) is_dead: bool,
}

/// A conditional write of a lease. Both are idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseRequest {
    /// Sets the end. Condition: not dead. Only the first one creates a missing lease: the permits of a lease that
    /// has expired long ago are not those of its process any more.
    Renew {
        id: RuntimeId,
        until: Time,
        is_first: bool,
    },
    /// Marks the lease of another runtime as dead. Condition: the end is the one that was seen; zero for a missing
    /// lease, which it creates.
    Fence(RuntimeId, Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseAnswer {
    Written,
    Refused,
    Lost,
}

/// What an answer means for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a fenced process has no permits"]
pub(crate) enum Standing {
    Kept,
    /// Others have reaped the permits. The process needs a new name.
    Fenced,
}

/// The lease of this process.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Beyond the longest lock of an item.
    term: Duration,
    is_first: bool,
    until: Time,
    asked_until: Option<Time>,
    renew_at: Time,
}

impl Lease {
    pub(crate) fn new() -> Self {
        Self {
            term: LEASE_TERM + ITEM_LOCK,
            is_first: true,
            until: Time::ZERO,
            asked_until: None,
            renew_at: Time::ZERO,
        }
    }

    /// Returns the lease of the process under a new name.
    pub(crate) fn anew(&self) -> Self {
        Self {
            term: self.term,
            ..Self::new()
        }
    }

    /// Makes the term longer than this lock.
    pub(crate) fn outlast(&mut self, lock: Duration) {
        self.term = self.term.max(lock + LEASE_TERM);
    }

    /// Returns whether an item may start now.
    pub(crate) fn is_valid(&self, now: Time) -> bool {
        now + LEASE_MARGIN < self.until
    }

    /// Returns whether the lease has not been asked for.
    pub(crate) fn is_new(&self) -> bool {
        self.is_first && self.asked_until.is_none() && self.renew_at.is_zero()
    }

    /// Returns the time beyond which no activity lock is renewed.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Returns the renewal, if it is due.
    pub(crate) fn renew(&mut self, id: &RuntimeId, now: Time) -> Option<LeaseRequest> {
        if self.asked_until.is_some() || now < self.renew_at {
            return None;
        }
        let until = now + self.term;
        self.asked_until = Some(until);
        Some(LeaseRequest::Renew {
            id: id.clone(),
            until,
            is_first: self.is_first,
        })
    }

    /// Returns when to look again.
    pub(crate) fn next(&self) -> Option<Time> {
        self.asked_until.is_none().then_some(self.renew_at)
    }

    /// Notes the answer to a renewal.
    pub(crate) fn on(&mut self, answer: LeaseAnswer, now: Time) -> Standing {
        let asked = self.asked_until.take();
        match answer {
            LeaseAnswer::Written => {
                self.is_first = false;
                self.until = asked.unwrap_or(self.until);
                self.renew_at = now + LEASE_RENEWED;
            }
            LeaseAnswer::Refused => return Standing::Fenced,
            LeaseAnswer::Lost => self.renew_at = now + LEASE_RETRIED,
        }
        Standing::Kept
    }
}

impl LeaseDocument {
    /// Returns whether others may fence the runtime: the lease has ended by any clock.
    pub(crate) fn has_ended(&self, now: Time) -> bool {
        self.is_dead || self.until + LEASE_MARGIN < now
    }
}
