//! Typed queries: conditions, scope, order, and the form of rows.

mod builder;
mod criteria;
mod explain;
mod filter;
mod foreign;
mod form;
mod order;
mod queryable;
mod raw;
mod sql;
mod statement;

pub use builder::{CountQuery, Query, Summand, ValueQuery};
pub use criteria::{CriteriaError, Criterion, Operator, SortCriterion};
pub use explain::Explanation;
pub use filter::{Filter, Filterable, Operand, Text, ValueError};
pub use foreign::ForeignDocument;
pub use form::QueryForm;
pub use order::{Composite, Order};
pub use queryable::{QueriedIn, Queryable, read_any, read_document};
pub use raw::PartitionDocuments;
pub(crate) use sql::patch_condition;
use sql::readable;
pub use statement::{Fetch, Parameter, RowForm, Scope, SortKey, Statement};
