//! Functions on the types of values, and conditional functions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::call::{Call, Function, integer};
use super::date;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("IS_DEFINED", 1, 1, |call| is(call, |_| true)),
    Function::new("IS_NULL", 1, 1, |call| is(call, Value::is_null)),
    Function::new("IS_BOOL", 1, 1, |call| is(call, Value::is_boolean)),
    Function::new("IS_NUMBER", 1, 1, |call| is(call, Value::is_number)),
    // All numbers of JSON are finite.
    Function::new("IS_FINITE_NUMBER", 1, 1, |call| is(call, Value::is_number)),
    Function::new("IS_INTEGER", 1, 1, |call| {
        is(call, |value| integer(value).is_some())
    }),
    Function::new("IS_STRING", 1, 1, |call| is(call, Value::is_string)),
    Function::new("IS_ARRAY", 1, 1, |call| is(call, Value::is_array)),
    Function::new("IS_OBJECT", 1, 1, |call| is(call, Value::is_object)),
    Function::new("IS_PRIMITIVE", 1, 1, |call| {
        is(call, |value| !value.is_array() && !value.is_object())
    }),
    Function::new("IS_DATETIME", 1, 1, |call| {
        is(call, |value| value.as_str().and_then(date::parse).is_some())
    }),
    Function::new("IIF", 3, 3, |call| {
        // A value that is not `true` counts as false.
        let holds = call.value(0) == Some(&Value::Bool(true));
        call.copy(call.value(if holds { 1 } else { 2 })?)
    }),
    Function::new("CHOOSE", 2, usize::MAX, |call| {
        let at = usize::try_from(call.integer(0)?)
            .ok()
            .filter(|at| *at > 0)?;
        call.copy(call.value(at)?)
    }),
    Function::new("DOCUMENTID", 1, 1, document_id),
];

#[expect(
    clippy::unnecessary_wraps,
    reason = "the form of every function in the table"
)]
fn is(call: &Call<'_>, test: impl Fn(&Value) -> bool) -> Option<Value> {
    Some(call.value(0).is_some_and(test).into())
}

/// Returns the number of a document in its container: the second half of its resource id.
fn document_id(call: &Call<'_>) -> Option<Value> {
    let rid = call.value(0)?.get("_rid")?.as_str()?;
    let bytes = STANDARD.decode(rid.replace('-', "/")).ok()?;
    let number: [u8; 8] = bytes.get(8..16)?.try_into().ok()?;
    Some(u64::from_le_bytes(number).into())
}
