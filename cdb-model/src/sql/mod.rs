//! Writes SQL. No other module does.
//!
//! The text depends on the model only; values are parameters. The condition of a patch cannot have
//! parameters, so its values are JSON literals, in which every quotation mark and backslash is
//! escaped.

mod aggregate;
mod expression;
mod fragment;
mod order;
mod parameter;
mod parts;
mod predicate;
mod score;
mod statement;
#[cfg(test)]
mod tests;
mod value_error;
mod writer;

pub use aggregate::AggregateKind;
pub(crate) use aggregate::AggregateTerm;
pub(crate) use expression::computed_query;
pub use fragment::Fragment;
pub(crate) use order::{OrderTerm, SortTarget};
pub use parameter::Parameter;
pub(crate) use parts::{Projection, QueryParts};
pub use predicate::IndexUse;
pub(crate) use predicate::{Comparison, FullTextMatch, Predicate, TextMatch};
pub(crate) use score::{RankTerm, Score};
pub(crate) use statement::{patch_condition, query, readable, search};
pub use value_error::ValueError;
