//! The service: what it does with a request about a document.
//!
//! The condition of a patch refers to the old document, all its operations are applied or none, and there are at most
//! [`MAX_OPERATIONS`].

use crate::machine::{
    Condition, Entry, Field, LeaseDocument, LeaseRequest, Line, Operation, Patch,
};

/// The most operations of a patch.
/// Source: "Partial document update in Azure Cosmos DB", supported limits.
const MAX_OPERATIONS: usize = 10;

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

    /// Returns the permits of all runtimes.
    pub(crate) fn held(&self) -> i64 {
        self.holders.values().map(|entry| entry.held).sum()
    }

    fn holds(&self, condition: &Condition) -> bool {
        let compare = |field, holds: &dyn Fn(i64) -> bool| self.get(field).is_some_and(holds);
        match condition {
            Condition::Equals(field, value) => compare(field, &|found| found == *value),
            Condition::AtLeast(field, value) => compare(field, &|found| found >= *value),
            Condition::TatBelow(value) => self.tat < *value,
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

impl LeaseDocument {
    /// Applies a request to a stored lease.
    pub(crate) fn apply(before: Option<&Self>, request: &LeaseRequest) -> Option<Self> {
        match request {
            LeaseRequest::Renew {
                until, is_first, ..
            } => {
                if before.is_none() && !is_first {
                    return None;
                }
                let is_dead = before.is_some_and(|lease| lease.is_dead);
                // A late renewal does not shorten a newer one.
                let until = before.map_or(*until, |lease| lease.until.max(*until));
                (!is_dead).then_some(Self { until, is_dead })
            }
            LeaseRequest::Fence(_, seen) => {
                let lease = before.cloned().unwrap_or_default();
                let is_seen = lease.is_dead || lease.until == *seen;
                is_seen.then_some(Self {
                    is_dead: true,
                    ..lease
                })
            }
        }
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
