//! Typed queries: conditions, scope, order, and the form of rows.

mod aggregate;
mod builder;
mod checked;
mod condition;
mod criteria;
mod explain;
mod order;
mod projection;
mod queryable;
mod search;
mod statement;

pub use aggregate::{
    Aggregate, AggregateQuery, Aggregates, GroupKeys, GroupQuery, GroupedQuery, Groups, Summand,
};
pub use builder::{Query, ValueQuery};
pub use checked::{
    Column, Documents, Sql, column_of, element, equal, filtered, matched, ordered,
    ordered_argument, pointer_of, summed, untyped,
};
pub use condition::{Array, Filter, Filterable, Operand, Optional, Searched, Text, compare_values};
pub use criteria::{CriteriaError, Criterion, Operator, SortCriterion};
pub use explain::{Explain, Explanation, QueryForm};
pub use order::{Composite, Order};
pub use projection::{ProjectedField, Projection};
pub use queryable::{QueriedIn, Queryable, read_any, read_document};
pub use search::{Hit, Rank, SearchQuery, SearchStatement, WithVectors, WithWords};
pub use statement::{
    Fetch, KeyLookup, RawSql, RowByRow, RowForm, Scope, SingleRow, SortKey, Statement,
};
