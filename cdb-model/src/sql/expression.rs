//! Writes stored paths, and the expressions of computed properties.

use std::fmt::Write as _;

use serde_json::Value;

use crate::shape::ExpressionPart;

/// Writes the query of a computed property.
pub(crate) fn computed_query(expression: &[ExpressionPart]) -> String {
    let mut text = "SELECT VALUE ".to_owned();
    for part in expression {
        match part {
            ExpressionPart::Text(sql) => text.push_str(sql),
            ExpressionPart::Path(pointer) => path(&mut text, pointer),
        }
    }
    text.push_str(" FROM c");
    text
}

/// Writes a stored path.
pub(super) fn path(text: &mut String, pointer: &str) {
    text.push('c');
    for name in pointer.split('/').filter(|name| !name.is_empty()) {
        property(text, name);
    }
}

/// Writes the access to a property.
pub(super) fn property(text: &mut String, name: &str) {
    // `Display` of a JSON string is its literal.
    let _written = write!(text, "[{}]", Value::from(name));
}
