//! Typed queries: conditions, scope, order, and the form of rows.
//!
//! [`aggregate`] counts, sums and groups, [`search`] ranks documents by words and vectors, and
//! [`statement`] is what a client sends.

pub mod aggregate;
pub(crate) mod builder;
pub(crate) mod checked;
mod condition;
mod criteria;
mod explain;
mod order;
pub(crate) mod projection;
pub(crate) mod queryable;
pub mod search;
pub mod statement;

pub(crate) use builder::Query;
pub use builder::ValueQuery;
pub use checked::{Documents, Sql};
pub use condition::{
    Array, Filter, Filterable, Operand, Optional, Searched, TextField, compare_values,
};
pub use criteria::{CriteriaError, Criterion, Operator, SortCriterion};
pub use explain::{Explain, Explanation, QueryForm};
pub use order::{Composite, Order};
pub use queryable::{QueriedIn, Queryable};
