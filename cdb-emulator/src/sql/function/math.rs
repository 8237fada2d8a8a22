//! Functions on numbers, which are doubles. A result that is not finite is undefined.

use std::f64::consts;

use serde_json::Value;

use super::call::{Call, Function, finite};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ABS", 1, 1, |call| one(call, f64::abs)),
    Function::new("ACOS", 1, 1, |call| one(call, f64::acos)),
    Function::new("ASIN", 1, 1, |call| one(call, f64::asin)),
    Function::new("ATAN", 1, 1, |call| one(call, f64::atan)),
    Function::new("ATN2", 2, 2, |call| two(call, f64::atan2)),
    Function::new("CEILING", 1, 1, |call| one(call, f64::ceil)),
    Function::new("COS", 1, 1, |call| one(call, f64::cos)),
    Function::new("COT", 1, 1, |call| one(call, |angle| 1.0 / angle.tan())),
    Function::new("DEGREES", 1, 1, |call| one(call, f64::to_degrees)),
    Function::new("EXP", 1, 1, |call| one(call, f64::exp)),
    Function::new("FLOOR", 1, 1, |call| one(call, f64::floor)),
    Function::new("LOG", 1, 2, |call| {
        let base = call.optional(1, consts::E, Call::number)?;
        let logarithm = call.number(0)?.ln();
        // `f64::log` is less precise, even for base e.
        finite(if call.len() == 1 {
            logarithm
        } else {
            logarithm / base.ln()
        })
    }),
    Function::new("LOG10", 1, 1, |call| one(call, f64::log10)),
    Function::new("NUMBERBIN", 1, 2, |call| {
        let size = call.optional(1, 1.0, Call::number)?;
        finite((call.number(0)? / size).floor() * size)
    }),
    Function::new("PI", 0, 0, |_| finite(consts::PI)),
    Function::new("POWER", 2, 2, |call| two(call, f64::powf)),
    Function::new("RADIANS", 1, 1, |call| one(call, f64::to_radians)),
    Function::new("RAND", 0, 0, |_| random()),
    // Rounds half away from zero, by its reference.
    Function::new("ROUND", 1, 1, |call| one(call, f64::round)),
    Function::new("SIGN", 1, 1, |call| {
        one(
            call,
            |number| if number == 0.0 { 0.0 } else { number.signum() },
        )
    }),
    Function::new("SIN", 1, 1, |call| one(call, f64::sin)),
    Function::new("SQRT", 1, 1, |call| one(call, f64::sqrt)),
    Function::new("SQUARE", 1, 1, |call| one(call, |number| number * number)),
    Function::new("TAN", 1, 1, |call| one(call, f64::tan)),
    Function::new("TRUNC", 1, 1, |call| one(call, f64::trunc)),
];

fn one(call: &Call<'_>, function: fn(f64) -> f64) -> Option<Value> {
    finite(function(call.number(0)?))
}

fn two(call: &Call<'_>, function: fn(f64, f64) -> f64) -> Option<Value> {
    finite(function(call.number(0)?, call.number(1)?))
}

/// Returns a random number from 0 (inclusive) to 1 (exclusive).
fn random() -> Option<Value> {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    // The top 48 bits of a random UUID are random, and a double holds them.
    #[expect(clippy::cast_precision_loss, reason = "48 bits are exact in a double")]
    let part = (high >> 16) as f64;
    finite(part / 281_474_976_710_656.0)
}
