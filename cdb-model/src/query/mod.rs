//! Typed queries: what is asked, where, in which order, and how a row is read.

mod statement;

pub use statement::{Fetch, Parameter, RowForm, Scope, SortKey, Statement};
