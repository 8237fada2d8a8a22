//! The functions of the query language. Names are upper case; a wrong type gives undefined, as in the service.

use serde_json::Value;

use super::value::{equal, number};
use crate::error::ServiceError;

type Arguments = [Option<Value>];

/// Calls a function.
pub(super) fn call(name: &str, arguments: &Arguments) -> Result<Option<Value>, ServiceError> {
    if let Some(value) = type_check(name, arguments) {
        return Ok(Some(value.into()));
    }
    if let Some(result) = text(name, arguments)
        .or_else(|| array(name, arguments))
        .or_else(|| math(name, arguments))
    {
        return Ok(result);
    }
    Err(ServiceError::bad_request(format!(
        "'{name}' is not a recognized built-in function name."
    )))
}

fn type_check(name: &str, arguments: &Arguments) -> Option<bool> {
    let value = arguments.first()?.as_ref();
    Some(match name {
        "IS_DEFINED" => value.is_some(),
        "IS_NULL" => value.is_some_and(Value::is_null),
        "IS_BOOL" => value.is_some_and(Value::is_boolean),
        "IS_NUMBER" => value.is_some_and(Value::is_number),
        "IS_STRING" => value.is_some_and(Value::is_string),
        "IS_ARRAY" => value.is_some_and(Value::is_array),
        "IS_OBJECT" => value.is_some_and(Value::is_object),
        "IS_PRIMITIVE" => value.is_some_and(|value| !value.is_array() && !value.is_object()),
        _ => return None,
    })
}

fn string(arguments: &Arguments, at: usize) -> Option<&str> {
    arguments.get(at)?.as_ref()?.as_str()
}

fn float(arguments: &Arguments, at: usize) -> Option<f64> {
    arguments.get(at)?.as_ref()?.as_f64()
}

/// `Some` when the function is known; inside, `None` is undefined.
#[expect(
    clippy::option_option,
    reason = "unknown function, undefined result, result"
)]
fn text(name: &str, arguments: &Arguments) -> Option<Option<Value>> {
    let first = string(arguments, 0);
    let second = string(arguments, 1);
    let ignore_case = matches!(arguments.get(2), Some(Some(Value::Bool(true))));
    let compared = |test: fn(&str, &str) -> bool| {
        first.zip(second).map(|(text, part)| {
            Value::Bool(if ignore_case {
                test(&text.to_lowercase(), &part.to_lowercase())
            } else {
                test(text, part)
            })
        })
    };
    Some(match name {
        "CONTAINS" => compared(|text, part| text.contains(part)),
        "STARTSWITH" => compared(|text, part| text.starts_with(part)),
        "ENDSWITH" => compared(|text, part| text.ends_with(part)),
        "STRINGEQUALS" => compared(|text, part| text == part),
        "LOWER" => first.map(|text| text.to_lowercase().into()),
        "UPPER" => first.map(|text| text.to_uppercase().into()),
        "TRIM" => first.map(|text| text.trim().into()),
        "LENGTH" => first.map(|text| text.chars().count().into()),
        "CONCAT" => arguments
            .iter()
            .map(|argument| argument.as_ref()?.as_str())
            .collect::<Option<String>>()
            .map(Value::String),
        "INDEX_OF" => first.zip(second).map(|(text, part)| {
            text.find(part)
                .map_or(Value::from(-1), |at| text[..at].chars().count().into())
        }),
        "REPLACE" => first
            .zip(second)
            .zip(string(arguments, 2))
            .map(|((text, from), to)| text.replace(from, to).into()),
        "SUBSTRING" => substring(arguments),
        "LEFT" => first
            .zip(float(arguments, 1))
            .map(|(text, count)| text.chars().take(whole(count)).collect::<String>().into()),
        "TOSTRING" => arguments.first().cloned().flatten().map(|value| {
            let plain = value.as_str().map(str::to_owned);
            plain.unwrap_or_else(|| value.to_string()).into()
        }),
        _ => return None,
    })
}

fn whole(number: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "negative counts are none, and longer ones than a text are all"
    )]
    let whole = number.max(0.0) as usize;
    whole
}

fn substring(arguments: &Arguments) -> Option<Value> {
    let (text, start, length) = (
        string(arguments, 0)?,
        float(arguments, 1)?,
        float(arguments, 2)?,
    );
    let part: String = text
        .chars()
        .skip(whole(start))
        .take(whole(length))
        .collect();
    Some(part.into())
}

#[expect(
    clippy::option_option,
    reason = "unknown function, undefined result, result"
)]
fn array(name: &str, arguments: &Arguments) -> Option<Option<Value>> {
    let items = arguments
        .first()
        .and_then(|value| value.as_ref()?.as_array());
    let second = arguments.get(1).and_then(Option::as_ref);
    Some(match name {
        "ARRAY_CONTAINS" => items.zip(second).map(|(items, needle)| {
            let partial = matches!(arguments.get(2), Some(Some(Value::Bool(true))));
            items
                .iter()
                .any(|item| equal(item, needle) || (partial && includes(item, needle)))
                .into()
        }),
        "ARRAY_LENGTH" => items.map(|items| items.len().into()),
        "ARRAY_CONCAT" => arguments
            .iter()
            .map(|argument| argument.as_ref()?.as_array().cloned())
            .collect::<Option<Vec<_>>>()
            .map(|arrays| arrays.concat().into()),
        "ARRAY_SLICE" => items.zip(float(arguments, 1)).map(|(items, start)| {
            let length = float(arguments, 2).map_or(usize::MAX, whole);
            let part = items.iter().skip(whole(start)).take(length);
            part.cloned().collect::<Vec<_>>().into()
        }),
        _ => return None,
    })
}

/// Whether an object has at least the fields of another.
fn includes(item: &Value, part: &Value) -> bool {
    match (item, part) {
        (Value::Object(item), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| item.get(name).is_some_and(|found| equal(found, value))),
        _ => false,
    }
}

#[expect(
    clippy::option_option,
    reason = "unknown function, undefined result, result"
)]
fn math(name: &str, arguments: &Arguments) -> Option<Option<Value>> {
    let first = float(arguments, 0);
    let apply = |function: fn(f64) -> f64| first.map(|value| number(function(value)));
    Some(match name {
        "ABS" => apply(f64::abs),
        "CEILING" => apply(f64::ceil),
        "FLOOR" => apply(f64::floor),
        "ROUND" => apply(f64::round),
        "TRUNC" => apply(f64::trunc),
        "SQRT" => apply(f64::sqrt),
        "SIGN" => apply(|value| if value == 0.0 { 0.0 } else { value.signum() }),
        "POWER" => first
            .zip(float(arguments, 1))
            .map(|(base, exponent)| number(base.powf(exponent))),
        _ => return None,
    })
}

/// `LIKE` with `%` and `_`.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    // For every prefix of the pattern: which prefixes of the text it matches.
    let mut matches = vec![false; text.len() + 1];
    matches[0] = true;
    for sign in pattern {
        let mut next = vec![false; text.len() + 1];
        let mut any = false;
        for at in 0..=text.len() {
            any |= matches[at];
            next[at] = match sign {
                '%' => any,
                '_' => at > 0 && matches[at - 1],
                letter => at > 0 && matches[at - 1] && text[at - 1] == letter,
            };
        }
        matches = next;
    }
    matches[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_knows_its_two_wildcards() {
        for (text, pattern, expected) in [
            ("order-1", "order%", true),
            ("order-1", "%1", true),
            ("order-1", "o_der__", true),
            ("order-1", "order", false),
            ("", "%", true),
            ("abc", "%b%", true),
        ] {
            assert_eq!(like(text, pattern), expected, "{text} LIKE {pattern}");
        }
    }
}
