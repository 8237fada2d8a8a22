//! The order of JSON values in the index of the service.
//!
//! Order of types, smallest first: undefined, null, booleans, numbers, strings, arrays, objects
//! (azure_data_cosmos_driver `order_by.rs`). Numbers are compared as doubles, strings byte by byte, as in
//! the index.

use std::cmp::Ordering;

use serde_json::Value;

/// Compares two values in the order of the service; `None` is undefined. Two arrays, and two
/// objects, are equal.
pub fn compare_values(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            // JSON has no NaN, so every two numbers have an order.
            let order = a.as_f64().partial_cmp(&b.as_f64());
            order.unwrap_or(Ordering::Equal)
        }
        (Some(Value::String(a)), Some(Value::String(b))) => a.as_bytes().cmp(b.as_bytes()),
        _ => rank(a).cmp(&rank(b)),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_all_types_have_the_order_of_the_service() {
        let ordered = [
            None,
            Some(json!(null)),
            Some(json!(false)),
            Some(json!(true)),
            Some(json!(-3.5)),
            Some(json!(2)),
            Some(json!(10)),
            Some(json!("")),
            Some(json!("Z")),
            Some(json!("a")),
            Some(json!("é")),
            Some(json!("\u{ffff}")),
            Some(json!("😀")),
            Some(json!([])),
            Some(json!({})),
        ];
        for pair in ordered.windows(2) {
            assert_eq!(
                compare_values(pair[0].as_ref(), pair[1].as_ref()),
                Ordering::Less,
                "{pair:?}"
            );
        }
    }

    #[test]
    fn numbers_of_the_same_value_are_equal() {
        for (a, b) in [("-0.0", "0"), ("-0.0", "0.0"), ("2", "2.0")] {
            let [a, b] = [a, b].map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(
                compare_values(Some(&a), Some(&b)),
                Ordering::Equal,
                "{a} {b}"
            );
        }
    }
}
