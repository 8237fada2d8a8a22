//! The rules of a protocol, and the removal of some of them.

/// A protocol, complete or without some of its rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<R: 'static>(&'static [R]);

impl<R: PartialEq> Rules<R> {
    pub(super) const ALL: Self = Self(&[]);

    pub(super) fn without(removed: &'static [R]) -> Self {
        Self(removed)
    }

    pub(super) fn has(self, rule: &R) -> bool {
        !self.0.contains(rule)
    }
}
