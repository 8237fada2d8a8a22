//! Conditions on a path that a document may lack: they hold for the value that a missing path, or null,
//! is read as, whichever way the program has stored it.
//!
//! The service neither accepts nor rejects a comparison with a missing path: `NOT` leaves it undecided.
//! Whether null differs from another type is undecided in the documentation ("Equality and comparison
//! operators": undefined), while Microsoft's emulators answer true. So each such condition says of
//! both null and missing what holds.

use std::cmp::Ordering;

use serde_json::Value;

use super::value_order::compare_values;
use crate::shape::DocumentShape;
use crate::sql::{Comparison, Predicate, TextMatch};

/// Completes a condition on one path by what holds for null and for a missing path.
pub(crate) fn completed(shape: &DocumentShape, path: &str, condition: Predicate) -> Predicate {
    let mut fields = shape.fields.iter();
    let field = fields.find(|field| field.path.trim_end_matches("/[]") == path);
    let absent = field.and_then(|field| field.absent);
    let absent = absent.and_then(|read| read().ok());
    if absent.is_none() && !has_null(&condition) {
        return condition;
    }
    let absent = absent.unwrap_or_default();
    let cases = [
        (Value::Null, Predicate::IsNull(path.to_owned())),
        (absent, is_missing(path)),
    ];
    let (accepted, rejected): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .partition(|(value, _)| holds(&condition, value));
    let mut alternatives: Vec<_> = without_null(condition).into_iter().collect();
    alternatives.extend(accepted.into_iter().map(|(_, case)| case));
    let accepts = match alternatives.len() {
        0 => return Predicate::Never,
        1 => alternatives.remove(0),
        _ => Predicate::Or(alternatives),
    };
    // That a value is neither null nor missing is decided for both.
    if rejected.is_empty() || matches!(accepts, Predicate::And(_)) {
        return accepts;
    }
    let rejected = rejected.into_iter().map(|(_, case)| case);
    Predicate::Partial(Box::new(accepts), rejected.collect())
}

/// Returns the condition that holds for exactly the other documents.
pub(super) fn negated(condition: Predicate) -> Predicate {
    match condition {
        Predicate::Not(inner) => *inner,
        Predicate::Partial(accepts, mut rejected) => {
            rejected.insert(0, Predicate::Not(accepts));
            Predicate::Or(rejected)
        }
        Predicate::And(parts) if parts.iter().any(is_partial) => {
            Predicate::Or(parts.into_iter().map(negated).collect())
        }
        Predicate::Or(parts) if parts.iter().any(is_partial) => {
            Predicate::And(parts.into_iter().map(negated).collect())
        }
        other => Predicate::Not(Box::new(other)),
    }
}

fn is_partial(condition: &Predicate) -> bool {
    match condition {
        Predicate::Partial(..) => true,
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(is_partial),
        _ => false,
    }
}

fn is_missing(path: &str) -> Predicate {
    let is_defined = Predicate::IsDefined(path.to_owned());
    Predicate::Not(Box::new(is_defined))
}

fn has_null(condition: &Predicate) -> bool {
    match condition {
        Predicate::Compare(_, _, value) => value.is_null(),
        Predicate::In(_, values) => values.iter().any(Value::is_null),
        _ => false,
    }
}

/// Returns what the condition says of values that are not null; `None` if it accepts no such value.
fn without_null(condition: Predicate) -> Option<Predicate> {
    match condition {
        Predicate::Compare(path, Comparison::NotEqual, Value::Null) => {
            let is_null = Predicate::IsNull(path.clone());
            Some(Predicate::And(vec![
                Predicate::IsDefined(path),
                Predicate::Not(Box::new(is_null)),
            ]))
        }
        Predicate::Compare(_, _, Value::Null) => None,
        Predicate::In(path, mut values) => {
            values.retain(|value| !value.is_null());
            (!values.is_empty()).then_some(Predicate::In(path, values))
        }
        other => Some(other),
    }
}

/// Whether a condition holds for a value, as in Rust. `None` is neither less nor greater than a value.
fn holds(condition: &Predicate, value: &Value) -> bool {
    match condition {
        Predicate::Compare(_, comparison, operand) => compares(value, *comparison, operand),
        Predicate::In(_, operands) => {
            let mut operands = operands.iter();
            operands.any(|operand| compares(value, Comparison::Equal, operand))
        }
        Predicate::Text(_, function, operand, ignore_case) => {
            let texts = value.as_str().zip(operand.as_str());
            texts.is_some_and(|(text, operand)| {
                if *ignore_case {
                    matches(&text.to_lowercase(), *function, &operand.to_lowercase())
                } else {
                    matches(text, *function, operand)
                }
            })
        }
        Predicate::ArrayContains(_, element) => {
            let elements = value.as_array();
            elements.is_some_and(|elements| elements.contains(element))
        }
        _ => false,
    }
}

fn compares(value: &Value, comparison: Comparison, operand: &Value) -> bool {
    let order = compare_values(Some(value), Some(operand));
    match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::LessOrEqual | Comparison::GreaterOrEqual if order == Ordering::Equal => true,
        _ if value.is_null() || operand.is_null() => false,
        Comparison::Less | Comparison::LessOrEqual => order == Ordering::Less,
        Comparison::Greater | Comparison::GreaterOrEqual => order == Ordering::Greater,
    }
}

fn matches(text: &str, function: TextMatch, operand: &str) -> bool {
    match function {
        TextMatch::Equals => text == operand,
        TextMatch::StartsWith => text.starts_with(operand),
        TextMatch::EndsWith => text.ends_with(operand),
        TextMatch::Contains => text.contains(operand),
    }
}
