//! The parts of a query.

use crate::query::filter::Predicate;
use crate::query::groups::AggregateTerm;
use crate::query::order::OrderTerm;
use crate::query::projection::ProjectedField;

/// What a query returns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Projection {
    /// The whole document.
    Document,
    /// One path, and the sort keys.
    Value(String),
    /// Some paths under the names of a projection, and the sort keys.
    Fields(&'static [ProjectedField]),
    /// Partial aggregates of each group of equal keys; without aggregates, the distinct keys.
    Aggregates {
        keys: Vec<&'static str>,
        terms: Vec<AggregateTerm>,
    },
}

/// The parts of a query.
#[derive(Clone, Debug)]
pub(crate) struct QueryParts<'a> {
    pub(crate) projection: &'a Projection,
    pub(crate) predicate: &'a Predicate,
    pub(crate) order: &'a [OrderTerm],
    pub(crate) top: Option<u32>,
    /// The name of the discriminator.
    pub(crate) discriminator: &'a str,
}
