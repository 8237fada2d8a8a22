//! Tokens to tree, by recursive descent; operators by how tightly they bind.
//!
//! Names are resolved here: what no FROM clause in reach binds is refused at its place.

mod cursor;
mod expression;
mod select;

pub(super) use cursor::is_name;

use super::ast::Select;
use super::error;
use crate::error::ServiceError;

/// Parses a query.
pub(crate) fn parse(text: &str) -> Result<Select, ServiceError> {
    error::check_length(text)?;
    let mut parser = cursor::Parser::new(text)?;
    let select = parser.query()?;
    parser.end()?;
    Ok(select)
}
