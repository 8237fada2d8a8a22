//! The parts of a query.

use super::aggregate::AggregateTerm;
use super::fragment::Fragment;
use super::order::OrderTerm;
use super::predicate::Predicate;

/// What a query returns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Projection {
    /// The whole document.
    Document,
    /// One value, and the sort keys.
    Value(Fragment),
    /// Partial aggregates of each group of equal keys; without aggregates, the distinct keys.
    Aggregates {
        keys: Vec<Fragment>,
        terms: Vec<AggregateTerm>,
    },
}

/// The parts of a query.
#[derive(Clone, Debug)]
pub(crate) struct QueryParts<'a> {
    pub(crate) projection: &'a Projection,
    /// What follows `FROM c`.
    pub(crate) joins: Option<&'a Fragment>,
    pub(crate) predicate: &'a Predicate,
    pub(crate) order: &'a [OrderTerm],
    pub(crate) top: Option<u32>,
    /// The name of the discriminator.
    pub(crate) discriminator: &'a str,
}
