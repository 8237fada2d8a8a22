//! The patches of the protocol, one function each.
//!
//! Every patch of a runtime has its own sequence number as condition and increments it. So at most one patch per
//! sequence number is ever applied: if the answer to a patch is lost, a fence with the same number decides whether
//! the patch was applied or never will be.

use super::RuntimeId;
use super::document::{Condition, Field, Line, Operation, Patch};
use super::rule::Rule;

/// The author of a patch.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) id: RuntimeId,
    /// The sequence number of the entry; `None` without an entry.
    pub(crate) seq: Option<i64>,
    /// The place in line, written with every patch: since when, and the permits wanted.
    pub(crate) line: (i64, i64),
}

impl Author {
    /// A patch that only increments the sequence number and updates the place in line: a fence, and the way to
    /// stand in line and to leave it.
    pub(crate) fn fence(&self) -> Patch {
        let id = || self.id.clone();
        let (since, wants) = self.line;
        let condition = match self.seq {
            Some(seq) => Condition::Equals(Field::Seq(id()), seq),
            None => Condition::HasNoEntry(id()),
        };
        let insert = self.seq.is_none().then(|| Operation::Insert(id()));
        let update = [
            Operation::Add(Field::Seq(id()), 1),
            Operation::Set(Field::Since(id()), since),
            Operation::Set(Field::Wants(id()), wants),
        ];
        Patch {
            conditions: vec![condition],
            operations: insert.into_iter().chain(update).collect(),
        }
    }

    /// Takes `count` free permits.
    pub(crate) fn take(&self, count: i64, rule: i64) -> Patch {
        let conditions = [
            Condition::Equals(Field::Rule, rule),
            Condition::AtLeast(Field::Free, count),
        ];
        self.with(conditions, self.hold(count))
    }

    /// Counts items that run without a permit, because the limit is newer. `free` may become negative.
    pub(crate) fn adopt(&self, count: i64, rule: i64) -> Patch {
        self.with([Condition::Equals(Field::Rule, rule)], self.hold(count))
    }

    /// Gives `count` permits back.
    pub(crate) fn give_back(&self, count: i64) -> Patch {
        self.with([], self.hold(-count))
    }

    /// Gives one permit to another runtime that stands in line.
    pub(crate) fn give(&self, to: &RuntimeId) -> Patch {
        let operations = [
            Operation::Add(Field::Held(self.id.clone()), -1),
            Operation::Add(Field::Held(to.clone()), 1),
            Operation::Add(Field::Wants(to.clone()), -1),
        ];
        self.with(
            [Condition::AtLeast(Field::Wants(to.clone()), 1)],
            operations,
        )
    }

    /// Reserves slots: moves the theoretical arrival time by `by`.
    pub(crate) fn reserve(&self, rule: i64, from: Reserved, by: i64) -> Patch {
        let (condition, operation) = match from {
            Reserved::Next { floor } => (
                Condition::AtLeast(Field::Tat, floor),
                Operation::Add(Field::Tat, by),
            ),
            Reserved::Unused { floor } => (
                Condition::TatBelow(floor),
                Operation::Set(Field::Tat, floor + by),
            ),
        };
        let by = Operation::SetBy(self.id.clone(), self.seq.unwrap_or(0) + 1);
        let condition = [Condition::Equals(Field::Rule, rule), condition];
        self.with(condition, [operation, by])
    }

    fn hold(&self, count: i64) -> [Operation; 2] {
        [
            Operation::Add(Field::Free, -count),
            Operation::Add(Field::Held(self.id.clone()), count),
        ]
    }

    fn with(
        &self,
        conditions: impl IntoIterator<Item = Condition>,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Patch {
        let mut patch = self.fence();
        patch.conditions.extend(conditions);
        patch.operations.extend(operations);
        patch
    }
}

/// Where a reservation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// At the next slot, because the theoretical arrival time is not before `floor`.
    Next { floor: i64 },
    /// At `floor`, because older slots have lapsed unused.
    Unused { floor: i64 },
}

/// Returns the permits of a fenced runtime. The conditions make it idempotent without an own sequence number.
pub(crate) fn reap(dead: &RuntimeId, seq: i64, held: i64) -> Patch {
    Patch {
        conditions: vec![
            Condition::Equals(Field::Seq(dead.clone()), seq),
            Condition::Equals(Field::Held(dead.clone()), held),
        ],
        operations: vec![
            Operation::Add(Field::Free, held),
            Operation::Remove(dead.clone()),
        ],
    }
}

/// Changes the limit that the document counts by. Idempotent by its condition. The slots of the old rate are void, so
/// those of a new one begin at `tat`.
pub(crate) fn change_rule(line: &Line, rule: &Rule, tat: Option<i64>) -> Patch {
    let counted = [
        Operation::Set(Field::Rule, rule.version),
        Operation::Set(Field::Cap, rule.cap()),
        Operation::Add(Field::Free, rule.cap() - line.cap),
    ];
    let tat = tat.map(|tat| Operation::Set(Field::Tat, tat));
    Patch {
        conditions: vec![Condition::Equals(Field::Rule, line.rule)],
        operations: counted.into_iter().chain(tat).collect(),
    }
}
