//! The values of a statement.

use serde::Serialize;

/// A query parameter in the service's form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// `@p0`, `@p1`, …
    pub name: String,
    /// The value, which is never part of the SQL text.
    pub value: serde_json::Value,
}
