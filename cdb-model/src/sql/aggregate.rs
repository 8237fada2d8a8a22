//! Aggregates as data.

use super::fragment::Fragment;

/// How the partial values of an aggregate are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    /// The number of documents.
    Count,
    /// The sum of numbers.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The average of numbers.
    Average,
}

/// An aggregate as data.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateTerm {
    pub(crate) kind: AggregateKind,
    /// The aggregated expression.
    pub(crate) argument: Fragment,
}
