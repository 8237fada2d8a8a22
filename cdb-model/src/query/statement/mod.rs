//! Statements, what a client reads with them, and queries that are no more than a statement.

mod fetch;
mod lookup;
mod raw;
mod row_by_row;

pub use crate::sql::{Parameter, ValueError};
pub use fetch::{Fetch, RowForm, Scope, SingleRow, SortKey, Statement};
pub use lookup::KeyLookup;
pub use raw::RawSql;
pub use row_by_row::RowByRow;
