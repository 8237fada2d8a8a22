//! The document of one limited key, and its conditional patches as data.
//!
//! Conditions only compare numbers and test for existence, because emulators and the service agree on those.

use std::collections::BTreeMap;

use super::RuntimeId;

/// The shared state of a limited key. Times are microseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The version of the rule that `cap` belongs to.
    pub(crate) rule: i64,
    pub(crate) cap: i64,
    /// The permits that no runtime holds. Negative while more items run than a new limit allows.
    pub(crate) free: i64,
    /// The theoretical arrival time: the time of the next slot that is not reserved.
    pub(crate) tat: i64,
    /// The last reservation: its runtime, and the sequence number that it has set.
    pub(crate) by: Option<(RuntimeId, i64)>,
    pub(crate) holders: BTreeMap<RuntimeId, Entry>,
}

/// The part of one runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) held: i64,
    /// Grows by one with every patch of the runtime itself.
    pub(crate) seq: i64,
    /// The time since which the runtime has been waiting in line; 0 outside of the line.
    pub(crate) since: i64,
    /// The permits for which the runtime stands in line.
    pub(crate) wants: i64,
}

/// A number of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Rule,
    Cap,
    Free,
    Tat,
    Held(RuntimeId),
    Seq(RuntimeId),
    Since(RuntimeId),
    Wants(RuntimeId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Equals(Field, i64),
    AtLeast(Field, i64),
    /// The theoretical arrival time is less.
    TatBelow(i64),
    HasNoEntry(RuntimeId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Increments a number. Not idempotent.
    Add(Field, i64),
    Set(Field, i64),
    SetBy(RuntimeId, i64),
    Insert(RuntimeId),
    Remove(RuntimeId),
}

/// A conditional patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) operations: Vec<Operation>,
}

impl Line {
    /// Returns the entry of a runtime.
    pub(crate) fn entry(&self, runtime: &RuntimeId) -> Option<&Entry> {
        self.holders.get(runtime)
    }
}
