//! Conditions that the crate adds to queries: of types, soft deletion and partition keys.

use super::filter::{Filter, is_none};
use crate::query::Queryable;
use crate::shape::DocumentShape;
use crate::sql::{Comparison, Predicate};
use crate::value::PartitionKey;

/// Returns the condition that a document is a `T`; none for a container with these types only.
pub(crate) fn type_condition<T: Queryable>() -> Predicate {
    let is_type = |shape: &&DocumentShape| Predicate::IsType(shape.discriminator);
    match (T::IS_PARTIAL, T::SHAPES) {
        (false, _) => Predicate::All,
        (true, [shape]) => is_type(shape),
        (true, shapes) => Predicate::Or(shapes.iter().map(is_type).collect()),
    }
}

/// Returns the condition that excludes soft-deleted documents.
pub(crate) fn live_condition<T: Queryable>() -> Predicate {
    let conditions = T::SHAPES.iter().filter_map(|shape| {
        let mut allowed = is_none(shape.soft_delete?);
        if T::SHAPES.len() > 1 || !T::IS_PARTIAL {
            let is_type = Predicate::IsType(shape.discriminator);
            allowed.push(Predicate::Not(Box::new(is_type)));
        }
        Some(Filter::<T>::from_predicate(Predicate::Or(allowed)))
    });
    conditions.fold(Filter::all(), Filter::and).predicate
}

impl PartitionKey {
    /// Returns a condition for each level, at these paths.
    pub(crate) fn conditions<'a>(
        &'a self,
        paths: &'a [&'a str],
    ) -> impl Iterator<Item = Predicate> + 'a {
        let levels = paths.iter().zip(self.values());
        levels.map(|(path, value)| {
            let value = serde_json::to_value(value).unwrap_or_default();
            Predicate::Compare((*path).to_owned(), Comparison::Equal, value)
        })
    }
}
