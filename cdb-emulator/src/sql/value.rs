//! Values and their order, as on the service: undefined < null < booleans < numbers < strings <
//! arrays < objects.

use std::cmp::Ordering;

use serde_json::Value;

/// The limit below which a double represents all whole numbers exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns a number as the service stores it: an integer if a double represents it exactly. A
/// number that is not finite becomes null.
pub(crate) fn number(number: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be a whole number below 2^53"
    )]
    if number.fract() == 0.0 && number.abs() < EXACT {
        Value::from(number as i64)
    } else {
        serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
    }
}

/// Stores numbers as doubles, at any depth, as the service does: `3.0` and `-0.0` become integers,
/// and integers beyond 2^53 are rounded and written in scientific notation
/// (azure_data_cosmos_driver, docs/BINARY_ENCODING_ROUNDTRIP_FUZZER.md 3.1, measured there on an
/// account).
pub(crate) fn fold_numbers(value: &mut Value) {
    match value {
        Value::Number(found) => {
            *value = number(found.as_f64().unwrap_or_default());
        }
        Value::Array(items) => items.iter_mut().for_each(fold_numbers),
        Value::Object(properties) => properties.values_mut().for_each(fold_numbers),
        _ => {}
    }
}

/// Returns the rank of a value's type in the order; 0 is undefined. The SQL of sorts uses the same
/// numbers.
pub(crate) fn rank(value: Option<&Value>) -> u8 {
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

/// Compares values of all types for a sort. Arrays are equal to each other, and so are objects.
pub(crate) fn order(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (Some(Value::Number(a)), Some(Value::Number(b))) => compare_numbers(a, b),
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Compares numbers as doubles, as on the service.
fn compare_numbers(a: &serde_json::Number, b: &serde_json::Number) -> Ordering {
    a.as_f64()
        .partial_cmp(&b.as_f64())
        .unwrap_or(Ordering::Equal)
}

/// Returns whether two values are equal; `1` equals `1.0`. Values of different types are not equal.
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

/// Compares values for a comparison operator; `None` for different types, and for arrays and
/// objects.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    if rank(Some(a)) != rank(Some(b)) || matches!(a, Value::Array(_) | Value::Object(_)) {
        return None;
    }
    Some(order(Some(a), Some(b)))
}

/// Returns a text that is equal for equal values only.
pub(crate) fn identity(value: Option<&Value>) -> String {
    let mut text = String::new();
    write_identity(value, &mut text);
    text
}

fn write_identity(value: Option<&Value>, out: &mut String) {
    match value {
        None => out.push('u'),
        Some(Value::Number(value)) => {
            let value = value.as_f64().unwrap_or_default();
            // 0 and -0 are equal.
            let value = if value == 0.0 { 0.0 } else { value };
            out.push_str(&value.to_string());
        }
        Some(Value::Array(items)) => {
            out.push('[');
            for item in items {
                write_identity(Some(item), out);
                out.push(',');
            }
            out.push(']');
        }
        Some(Value::Object(object)) => {
            let mut fields: Vec<(&String, &Value)> = object.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, item) in fields {
                out.push_str(&Value::from(&**name).to_string());
                write_identity(Some(item), out);
                out.push(',');
            }
            out.push('}');
        }
        Some(value) => out.push_str(&value.to_string()),
    }
}
