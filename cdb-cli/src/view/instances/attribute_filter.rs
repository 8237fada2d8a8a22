//! Conditions on search attributes as text: `customer=ada`, `total>=100`, `paid=true`, `code="7"`; and
//! sorts by them: `customer,-total`.

use cdb_model::query::{Criterion, Operator, SortCriterion};
use cdb_model::shape::Direction;
use serde_json::Value;

/// What precedes the name of an attribute in the name of its field.
const PREFIX: &str = "attributes.";

/// The operators, longer ones before their beginnings.
const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::Ne),
    ("<=", Operator::Le),
    (">=", Operator::Ge),
    ("=", Operator::Eq),
    ("<", Operator::Lt),
    (">", Operator::Gt),
];

/// Parses a condition. A value in the form of a JSON string, a number, `true` or `false` has that
/// type; any other text is a string.
pub(crate) fn parse(text: &str) -> Result<Criterion, String> {
    let form = "write NAME=VALUE; the operators are = != < <= > >=";
    let at = text.find(['=', '!', '<', '>']).ok_or(form)?;
    let (name, rest) = text.split_at(at);
    let name = name.trim();
    if !is_name(name) {
        return Err(format!("`{name}` is not the name of an attribute; {form}"));
    }
    let mut operators = OPERATORS.iter();
    let (symbol, operator) = operators
        .find(|(symbol, _)| rest.starts_with(symbol))
        .ok_or(form)?;
    let value = rest[symbol.len()..].trim();
    if value.starts_with('=') {
        let value = value.trim_start_matches('=').trim_start();
        return Err(format!(
            "`{symbol}=` is not an operator; write {name}{symbol}{value}, or {name}{symbol}\"=…\" for a value that begins with ="
        ));
    }
    let value = match serde_json::from_str(value) {
        Ok(typed @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => typed,
        Err(_) if value.starts_with('"') => {
            return Err(format!("{value} is not a JSON string"));
        }
        _ => Value::from(value),
    };
    Ok(Criterion {
        field: format!("{PREFIX}{name}"),
        operator: *operator,
        value,
    })
}

/// Parses one term of a sort: `total`, or `-total` for the largest first.
pub(crate) fn sort_term(text: &str) -> Result<SortCriterion, String> {
    let text = text.trim();
    let (name, direction) = match text.strip_prefix('-') {
        Some(name) => (name, Direction::Descending),
        None => (text, Direction::Ascending),
    };
    // With the prefix, attributes named `created` and `ru` can be sorted by.
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    if !is_name(name) {
        return Err(format!(
            "`{text}` is not the name of an attribute; write total, -total or customer,-total"
        ));
    }
    Ok(SortCriterion {
        field: format!("{PREFIX}{name}"),
        direction,
    })
}

/// Returns the name of the attribute of a condition.
pub(crate) fn name(condition: &Criterion) -> &str {
    let field = &*condition.field;
    field.strip_prefix(PREFIX).unwrap_or(field)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '/', '*'])
}

/// Parses conditions that are separated by spaces. A string with spaces is in quotation marks.
#[cfg(feature = "dashboard")]
pub(crate) fn parse_list(text: &str) -> Result<Vec<Criterion>, String> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text.split(|c: char| {
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && quoted && !escaped;
        c.is_whitespace() && !quoted
    });
    parts.filter(|part| !part.is_empty()).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_of_a_value_is_its_type() {
        for (text, name, operator, value) in [
            ("customer=ada", "customer", Operator::Eq, json!("ada")),
            ("total >= 100.5", "total", Operator::Ge, json!(100.5)),
            ("paid!=true", "paid", Operator::Ne, json!(true)),
            ("code=\"7\"", "code", Operator::Eq, json!("7")),
            ("code<007", "code", Operator::Lt, json!("007")),
            ("note=a=b", "note", Operator::Eq, json!("a=b")),
            ("note=null", "note", Operator::Eq, json!("null")),
            ("note=[1]", "note", Operator::Eq, json!("[1]")),
            ("note=", "note", Operator::Eq, json!("")),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed.field, format!("attributes.{name}"));
            assert_eq!((parsed.operator, parsed.value), (operator, value), "{text}");
        }
        for text in ["customer", "=ada", "a.b=1", "a!1", "a=\"x", "a==1", "a<==1"] {
            parse(text).unwrap_err();
        }
        let error = parse("customer == ada").unwrap_err();
        assert!(
            error.contains("`==` is not an operator; write customer=ada"),
            "{error}"
        );
    }

    #[test]
    #[cfg(feature = "dashboard")]
    fn spaces_separate_conditions_except_in_quotation_marks() {
        let parsed = parse_list(r#"  name="a \" b" total>1 "#).unwrap();
        let values: Vec<Value> = parsed.into_iter().map(|one| one.value).collect();
        assert_eq!(values, [json!("a \" b"), json!(1)]);
        assert_eq!(parse_list("").unwrap(), []);
        parse_list("total > 1").unwrap_err();
    }
}
