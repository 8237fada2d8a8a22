//! The conditions of queries and patches.

mod absent;
mod filter;
mod implied;
mod text;
mod value_order;

pub(super) use absent::completed;
pub use filter::{Filter, Filterable, Operand, Optional};
pub(super) use implied::{live_condition, type_condition};
pub use text::{Array, Searched, TextField};
pub use value_order::compare_values;
