//! Functions between values and their JSON text.

use serde_json::Value;

use super::call::{Call, Function};
use crate::sql::value::number;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("TOSTRING", 1, 1, |call| {
        let value = call.value(0)?;
        call.copy(value)?;
        Some(match value {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        })
    }),
    Function::new("STRINGTOARRAY", 1, 1, |call| parse(call, Value::is_array)),
    Function::new("STRINGTOBOOLEAN", 1, 1, |call| {
        parse(call, Value::is_boolean)
    }),
    Function::new("STRINGTONULL", 1, 1, |call| parse(call, Value::is_null)),
    Function::new("STRINGTONUMBER", 1, 1, |call| {
        let value = parse(call, Value::is_number)?;
        Some(if value.is_f64() {
            number(value.as_f64()?)
        } else {
            value
        })
    }),
    Function::new("STRINGTOOBJECT", 1, 1, |call| parse(call, Value::is_object)),
];

/// Parses a text as JSON; `None` if the value is not of the expected type.
fn parse(call: &Call<'_>, wanted: fn(&Value) -> bool) -> Option<Value> {
    let text = call.text(0)?;
    call.charge(text.len() / 4)?;
    serde_json::from_str(text).ok().filter(wanted)
}
