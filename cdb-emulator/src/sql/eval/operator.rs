//! Operators on values.

use serde_json::Value;

use crate::sql::ast::{Binary, Unary};
use crate::sql::value::{compare, equal, number};

pub(super) fn unary(operator: Unary, operand: &Value) -> Option<Value> {
    match (operator, operand) {
        (Unary::Not, Value::Bool(value)) => Some((!value).into()),
        (Unary::Minus, Value::Number(value)) => Some(number(-value.as_f64()?)),
        (Unary::Plus, Value::Number(value)) => Some(Value::Number(value.clone())),
        (Unary::BitNot, Value::Number(value)) => Some((!to_int32(value.as_f64()?)).into()),
        _ => None,
    }
}

/// Evaluates all operators but `??`, which ignores its second operand if the first is defined.
pub(super) fn binary(operator: Binary, a: Option<&Value>, b: Option<&Value>) -> Option<Value> {
    match operator {
        Binary::And | Binary::Or => logic(operator, a, b),
        Binary::Equal => Some(equal(a?, b?).into()),
        Binary::NotEqual => Some((!equal(a?, b?)).into()),
        Binary::Less => Some(compare(a?, b?)?.is_lt().into()),
        Binary::LessOrEqual => Some(compare(a?, b?)?.is_le().into()),
        Binary::Greater => Some(compare(a?, b?)?.is_gt().into()),
        Binary::GreaterOrEqual => Some(compare(a?, b?)?.is_ge().into()),
        Binary::Concat => Some(Value::String([a?.as_str()?, b?.as_str()?].concat())),
        _ => arithmetic(operator, a?.as_f64()?, b?.as_f64()?),
    }
}

/// Evaluates three-valued logic: a value that is not a boolean is neither true nor false.
pub(super) fn logic(operator: Binary, a: Option<&Value>, b: Option<&Value>) -> Option<Value> {
    let (a, b) = (a.and_then(Value::as_bool), b.and_then(Value::as_bool));
    // A `false` decides an AND, a `true` decides an OR.
    let decides = operator == Binary::Or;
    if a == Some(decides) || b == Some(decides) {
        return Some(decides.into());
    }
    a.zip(b).map(|_| (!decides).into())
}

fn arithmetic(operator: Binary, a: f64, b: f64) -> Option<Value> {
    let result = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::Remainder => a % b,
        _ => return bitwise(operator, to_int32(a), to_int32(b)),
    };
    result.is_finite().then(|| number(result))
}

/// Evaluates bit operators like JavaScript: on 32 bits, with shifts by the lowest five bits of the
/// right operand.
fn bitwise(operator: Binary, a: i32, b: i32) -> Option<Value> {
    let count = b.cast_unsigned();
    Some(match operator {
        Binary::BitAnd => (a & b).into(),
        Binary::BitOr => (a | b).into(),
        Binary::BitXor => (a ^ b).into(),
        Binary::ShiftLeft => a.wrapping_shl(count).into(),
        Binary::ShiftRight => a.wrapping_shr(count).into(),
        Binary::ShiftRightZeroFill => a.cast_unsigned().wrapping_shr(count).into(),
        _ => return None,
    })
}

/// Returns the lowest 32 bits of a number without its fraction.
fn to_int32(number: f64) -> i32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the remainder fits into 32 bits"
    )]
    let bits = number.trunc().rem_euclid(4_294_967_296.0) as u32;
    bits.cast_signed()
}
