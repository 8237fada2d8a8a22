//! Values and their order, as the service has it: undefined < null < bools < numbers < strings < arrays < objects.

use std::cmp::Ordering;

use serde_json::Value;

/// A number as the service stores it: integers stay integers where a double holds them exactly.
pub(crate) fn number(number: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be a whole number below 2^53"
    )]
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        Value::from(number as i64)
    } else {
        serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
    }
}

fn rank(value: Option<&Value>) -> u8 {
    match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Bool(_)) => 2,
        Some(Value::Number(_)) => 3,
        Some(Value::String(_)) => 4,
        Some(Value::Array(_)) => 5,
        Some(Value::Object(_)) => 6,
    }
}

/// The order of a sort, over all types.
pub(crate) fn order(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (Some(Value::Number(a)), Some(Value::Number(b))) => compare_numbers(a, b),
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn compare_numbers(a: &serde_json::Number, b: &serde_json::Number) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => Ordering::Equal,
    }
}

/// Equality, where `1` and `1.0` are one number. Values of different types are simply not equal.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// The order of a comparison operator: undefined between values of different types, and for arrays and objects.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    if rank(Some(a)) != rank(Some(b)) || matches!(a, Value::Array(_) | Value::Object(_)) {
        return None;
    }
    Some(order(Some(a), Some(b)))
}
