//! Typed queries: conditions, scope, order, and the form of rows.

mod absent;
mod aggregate;
mod builder;
mod checked;
mod conditions;
mod criteria;
mod explain;
mod filter;
mod form;
mod groups;
mod lookup;
mod order;
mod projection;
mod queryable;
mod rank;
mod raw;
mod row_by_row;
mod search;
mod statement;
mod text;
mod value_order;

pub use aggregate::{
    Aggregate, AggregateQuery, Aggregates, GroupKeys, GroupQuery, GroupedQuery, Summand,
};
pub use builder::{Query, ValueQuery};
pub use checked::{
    Column, Documents, Sql, column_of, element, equal, filtered, matched, ordered,
    ordered_argument, pointer_of, summed, untyped,
};
pub use criteria::{CriteriaError, Criterion, Operator, SortCriterion};
pub use explain::{Explain, Explanation};
pub use filter::{Filter, Filterable, Operand, Optional};
pub use form::QueryForm;
pub use groups::Groups;
pub use lookup::KeyLookup;
pub use order::{Composite, Order};
pub use projection::{ProjectedField, Projection};
pub use queryable::{QueriedIn, Queryable, read_any, read_document};
pub use rank::{Rank, WithVectors, WithWords};
pub use raw::RawSql;
pub use row_by_row::RowByRow;
pub use search::{Hit, SearchQuery, SearchStatement};
pub use statement::{Fetch, RowForm, Scope, SingleRow, SortKey, Statement};
pub use text::{Array, Searched, Text};
pub use value_order::compare_values;
