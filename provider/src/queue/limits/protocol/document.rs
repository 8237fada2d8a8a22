//! The document of one limited key, and its conditional patches as data.
//!
//! [`Line::apply`] has the semantics of the service: the condition refers to the old document, all
//! operations of a patch are applied or none, and a patch has at most [`MAX_OPERATIONS`].
//! Conditions only compare numbers and test for existence, because emulators and the service agree on those.

use std::collections::BTreeMap;

use super::RuntimeId;

/// The most operations of a patch.
/// Source: "Partial document update in Azure Cosmos DB", supported limits.
const MAX_OPERATIONS: usize = 10;

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
    Below(Field, i64),
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

/// Why the service did not apply a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// 412: a condition does not hold.
    Condition,
    /// 400: the patch has too many operations, or a path without a parent.
    Malformed,
}

impl Line {
    /// Returns the document after a patch.
    ///
    /// # Errors
    /// Fails without any change if a condition does not hold or the patch is malformed.
    pub(crate) fn apply(&self, patch: &Patch) -> Result<Self, Refused> {
        if !patch
            .conditions
            .iter()
            .all(|condition| self.holds(condition))
        {
            return Err(Refused::Condition);
        }
        if patch.operations.len() > MAX_OPERATIONS {
            return Err(Refused::Malformed);
        }
        let mut after = self.clone();
        for operation in &patch.operations {
            after.operate(operation).ok_or(Refused::Malformed)?;
        }
        Ok(after)
    }

    /// Returns the entry of a runtime.
    pub(crate) fn entry(&self, runtime: &RuntimeId) -> Option<&Entry> {
        self.holders.get(runtime)
    }

    /// Returns the permits of all runtimes.
    pub(crate) fn held(&self) -> i64 {
        self.holders.values().map(|entry| entry.held).sum()
    }

    fn holds(&self, condition: &Condition) -> bool {
        let compare = |field, holds: &dyn Fn(i64) -> bool| self.get(field).is_some_and(holds);
        match condition {
            Condition::Equals(field, value) => compare(field, &|found| found == *value),
            Condition::AtLeast(field, value) => compare(field, &|found| found >= *value),
            Condition::Below(field, value) => compare(field, &|found| found < *value),
            Condition::HasNoEntry(runtime) => !self.holders.contains_key(runtime),
        }
    }

    fn get(&self, field: &Field) -> Option<i64> {
        let entry = |runtime| self.holders.get(runtime);
        match field {
            Field::Rule => Some(self.rule),
            Field::Cap => Some(self.cap),
            Field::Free => Some(self.free),
            Field::Tat => Some(self.tat),
            Field::Held(runtime) => Some(entry(runtime)?.held),
            Field::Seq(runtime) => Some(entry(runtime)?.seq),
            Field::Since(runtime) => Some(entry(runtime)?.since),
            Field::Wants(runtime) => Some(entry(runtime)?.wants),
        }
    }

    fn get_mut(&mut self, field: &Field) -> Option<&mut i64> {
        match field {
            Field::Rule => Some(&mut self.rule),
            Field::Cap => Some(&mut self.cap),
            Field::Free => Some(&mut self.free),
            Field::Tat => Some(&mut self.tat),
            Field::Held(runtime) => Some(&mut self.holders.get_mut(runtime)?.held),
            Field::Seq(runtime) => Some(&mut self.holders.get_mut(runtime)?.seq),
            Field::Since(runtime) => Some(&mut self.holders.get_mut(runtime)?.since),
            Field::Wants(runtime) => Some(&mut self.holders.get_mut(runtime)?.wants),
        }
    }

    fn operate(&mut self, operation: &Operation) -> Option<()> {
        match operation {
            Operation::Add(field, by) => *self.get_mut(field)? += by,
            Operation::Set(field, to) => *self.get_mut(field)? = *to,
            Operation::SetBy(runtime, seq) => self.by = Some((runtime.clone(), *seq)),
            Operation::Insert(runtime) => {
                self.holders.insert(runtime.clone(), Entry::default());
            }
            Operation::Remove(runtime) => {
                self.holders.remove(runtime)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_with_a_path_without_a_parent_changes_nothing() {
        let line = Line::default();
        let operations = vec![
            Operation::Add(Field::Free, -1),
            Operation::Add(Field::Held("a".into()), 1),
        ];
        let patch = Patch {
            conditions: Vec::new(),
            operations,
        };
        assert_eq!(line.apply(&patch), Err(Refused::Malformed));
    }

    #[test]
    fn a_condition_on_a_missing_entry_does_not_hold() {
        let patch = Patch {
            conditions: vec![Condition::Equals(Field::Seq("a".into()), 0)],
            operations: Vec::new(),
        };
        assert_eq!(Line::default().apply(&patch), Err(Refused::Condition));
    }

    #[test]
    fn a_patch_has_at_most_ten_operations() {
        let operations = vec![Operation::Add(Field::Free, 1); MAX_OPERATIONS + 1];
        let patch = Patch {
            conditions: Vec::new(),
            operations,
        };
        assert_eq!(Line::default().apply(&patch), Err(Refused::Malformed));
    }
}
