//! Conditions of patches on any scalar path: the service checks them on the addressed document, so they
//! need no index.

use super::changes::Patch;
use crate::document::{Document, Path};
use crate::query::Operand;
use crate::sql::Comparison;
use crate::value::{Ordered, Scalar};

impl<D: Document, T> Patch<D, T> {
    /// Adds the condition that a field has this value.
    pub fn when_eq<V: Scalar, I, M>(self, path: Path<D, V, I, M>, value: impl Operand<V>) -> Self {
        self.when(path.compare_without_index(Comparison::Equal, value))
    }

    /// Adds the condition that a field has another value.
    pub fn when_ne<V: Scalar, I, M>(self, path: Path<D, V, I, M>, value: impl Operand<V>) -> Self {
        self.when(path.compare_without_index(Comparison::NotEqual, value))
    }

    /// Adds the condition that a field has one of these values.
    pub fn when_in<V: Scalar, I, M, O: Operand<V>>(
        self,
        path: Path<D, V, I, M>,
        values: impl IntoIterator<Item = O>,
    ) -> Self {
        self.when(path.in_without_index(values))
    }

    /// Adds the condition that a field has a lesser value.
    pub fn when_lt<V: Ordered, I, M>(self, path: Path<D, V, I, M>, value: impl Operand<V>) -> Self {
        self.when(path.compare_without_index(Comparison::Less, value))
    }

    /// Adds the condition that a field has at most this value.
    pub fn when_le<V: Ordered, I, M>(self, path: Path<D, V, I, M>, value: impl Operand<V>) -> Self {
        self.when(path.compare_without_index(Comparison::LessOrEqual, value))
    }

    /// Adds the condition that a field has a greater value.
    pub fn when_gt<V: Ordered, I, M>(self, path: Path<D, V, I, M>, value: impl Operand<V>) -> Self {
        self.when(path.compare_without_index(Comparison::Greater, value))
    }

    /// Adds the condition that a field has at least this value.
    pub fn when_ge<V: Ordered, I, M>(self, path: Path<D, V, I, M>, value: impl Operand<V>) -> Self {
        self.when(path.compare_without_index(Comparison::GreaterOrEqual, value))
    }

    /// Adds the condition that a field is `None`: null or missing.
    pub fn when_none<V, I, M>(self, path: Path<D, Option<V>, I, M>) -> Self {
        self.when(path.none_without_index())
    }

    /// Adds the condition that a field is `Some`.
    pub fn when_some<V, I, M>(self, path: Path<D, Option<V>, I, M>) -> Self {
        self.when(path.some_without_index())
    }
}
