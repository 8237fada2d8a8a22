//! Aggregates of documents or of groups of documents, and their merge across partitions.

mod groups;
mod query;

pub use crate::sql::AggregateKind;
pub use groups::Groups;
pub(super) use query::argument;
pub use query::{
    Aggregate, AggregateQuery, Aggregates, GroupKeys, GroupQuery, GroupedQuery, Summand,
};
