//! Which indexes serve a query.

mod explanation;
mod form;

pub use explanation::{Explain, Explanation};
pub use form::QueryForm;
