//! The lease of a process. It covers the permits of all keys: nothing is renewed per key.
//!
//! A process that cannot renew its lease starts nothing, and renews no activity lock beyond it. Others reap its
//! permits once the lease has ended and they have fenced it, so nothing that the permits allowed runs by then.
//! Queries of due items also find leases that have ended, because both are indexed by time. So no runtime reads the
//! leases of others.

use std::time::Duration;

use super::{RuntimeId, Time};

/// The term of a lease: an activity lock (30 s), a renewal (10 s) and a margin (5 s).
const TERM: Duration = Duration::from_secs(45);
const RENEWED: Duration = Duration::from_secs(10);
/// The pause after a renewal without an answer.
const RETRIED: Duration = Duration::from_millis(500);
/// The rest of a lease in which nothing starts.
const MARGIN: Duration = Duration::from_secs(2);

/// The stored lease of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseDocument {
    pub(crate) until: Time,
    /// Set by another runtime after the end. The lease cannot be renewed afterwards.
    pub(crate) is_dead: bool,
}

/// A conditional write of a lease. Both are idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseRequest {
    /// Sets the end, and creates a missing lease. Condition: not dead.
    Renew(RuntimeId, Time),
    /// Marks the lease of another runtime as dead. Condition: the end is the one that was seen.
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
    until: Time,
    asked_until: Option<Time>,
    renew_at: Time,
}

impl Lease {
    pub(crate) fn new() -> Self {
        Self {
            until: Time::ZERO,
            asked_until: None,
            renew_at: Time::ZERO,
        }
    }

    /// Returns whether an item may start now.
    pub(crate) fn is_valid(&self, now: Time) -> bool {
        now + MARGIN < self.until
    }

    /// Returns the time beyond which no activity lock is renewed.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Returns the end to ask for, if a renewal is due.
    pub(crate) fn renew(&mut self, now: Time) -> Option<Time> {
        if self.asked_until.is_some() || now < self.renew_at {
            return None;
        }
        self.asked_until = Some(now + TERM);
        self.asked_until
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
                self.until = asked.unwrap_or(self.until);
                self.renew_at = now + RENEWED;
            }
            LeaseAnswer::Refused => return Standing::Fenced,
            LeaseAnswer::Lost => self.renew_at = now + RETRIED,
        }
        Standing::Kept
    }
}

impl LeaseDocument {
    /// Applies a request to a stored lease.
    pub(crate) fn apply(before: Option<&Self>, request: &LeaseRequest) -> Option<Self> {
        match request {
            LeaseRequest::Renew(_, until) => {
                let is_dead = before.is_some_and(|lease| lease.is_dead);
                // A late renewal does not shorten a newer one.
                let until = before.map_or(*until, |lease| lease.until.max(*until));
                (!is_dead).then_some(Self { until, is_dead })
            }
            LeaseRequest::Fence(_, seen) => {
                let lease = before.filter(|lease| lease.is_dead || lease.until == *seen)?;
                Some(Self {
                    is_dead: true,
                    ..lease.clone()
                })
            }
        }
    }

    /// Returns whether others may fence the runtime: the lease has ended by any clock.
    pub(crate) fn has_ended(&self, now: Time) -> bool {
        self.is_dead || self.until + MARGIN < now
    }
}
