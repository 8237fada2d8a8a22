//! The parser: recursive descent, with precedence climbing for operators.
//!
//! It resolves names: a name that no visible FROM clause binds is rejected with its location.

mod cursor;
mod expression;
mod select;

pub(super) use cursor::is_name;

use crate::protocol::ServiceError;
use crate::sql::ast::Select;
use crate::sql::error;

/// Parses a query.
pub(crate) fn parse(text: &str) -> Result<Select, ServiceError> {
    error::check_length(text)?;
    let mut parser = cursor::Parser::new(text)?;
    let select = parser.query()?;
    parser.end()?;
    Ok(select)
}
