//! Functions on 64-bit integers. Numbers with a fraction give undefined; overflow wraps around, as
//! in C++.

use serde_json::Value;

use super::call::{Call, Function};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("INTADD", 2, 2, |call| {
        two(call, |a, b| Some(a.wrapping_add(b)))
    }),
    Function::new("INTSUB", 2, 2, |call| {
        two(call, |a, b| Some(a.wrapping_sub(b)))
    }),
    Function::new("INTMUL", 2, 2, |call| {
        two(call, |a, b| Some(a.wrapping_mul(b)))
    }),
    Function::new("INTDIV", 2, 2, |call| {
        two(call, |a, b| (b != 0).then(|| a.wrapping_div(b)))
    }),
    Function::new("INTMOD", 2, 2, |call| {
        two(call, |a, b| (b != 0).then(|| a.wrapping_rem(b)))
    }),
    Function::new("INTBITAND", 2, 2, |call| two(call, |a, b| Some(a & b))),
    Function::new("INTBITOR", 2, 2, |call| two(call, |a, b| Some(a | b))),
    Function::new("INTBITXOR", 2, 2, |call| two(call, |a, b| Some(a ^ b))),
    Function::new("INTBITNOT", 1, 1, |call| Some((!call.integer(0)?).into())),
    Function::new("INTBITLEFTSHIFT", 2, 2, |call| {
        two(call, |a, b| Some(a.wrapping_shl(bits(b)?)))
    }),
    Function::new("INTBITRIGHTSHIFT", 2, 2, |call| {
        two(call, |a, b| Some(a.wrapping_shr(bits(b)?)))
    }),
];

fn two(call: &Call<'_>, function: fn(i64, i64) -> Option<i64>) -> Option<Value> {
    function(call.integer(0)?, call.integer(1)?).map(Value::from)
}

/// Returns the number of bits to shift, 0 to 63.
fn bits(count: i64) -> Option<u32> {
    u32::try_from(count & 63).ok()
}
