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

/// Writes the query of a global secondary index. Names are written as in the documentation of the
/// service, `c.name`, except those that are not identifiers or are keywords.
pub(crate) fn index_query(properties: &[&str]) -> String {
    let mut text = "SELECT ".to_owned();
    for (at, name) in properties.iter().enumerate() {
        text.push_str(if at == 0 { "c" } else { ", c" });
        if is_identifier(name) {
            text.push('.');
            text.push_str(name);
        } else {
            property(&mut text, name);
        }
    }
    text.push_str(" FROM c");
    text
}

/// Keywords of the query language ("Keywords in Azure Cosmos DB for NoSQL").
const KEYWORDS: &str = " and array as asc between by case cast convert cross desc distinct else end escape exists \
    false for from group having if in inner insert into is join left like limit not null offset on or order outer \
    over rank right select set then top true undefined update value when where with ";

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    characters.next().is_some_and(starts)
        && characters.all(|c| starts(c) || c.is_ascii_digit())
        && !KEYWORDS.contains(&format!(" {} ", name.to_ascii_lowercase()))
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
