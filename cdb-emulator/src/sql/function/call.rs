//! A function, a call of one, and how it reads its arguments.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::protocol::ServiceError;
use crate::sql::context::Context;
use crate::sql::value;

/// A scalar function.
pub(crate) struct Function {
    /// The name in upper case. Names are not case-sensitive.
    pub(crate) name: &'static str,
    /// Minimum number of arguments.
    pub(crate) least: usize,
    /// Maximum number of arguments.
    pub(crate) most: usize,
    run: fn(&Call<'_>) -> Option<Value>,
}

impl Function {
    pub(super) const fn new(
        name: &'static str,
        least: usize,
        most: usize,
        run: fn(&Call<'_>) -> Option<Value>,
    ) -> Self {
        Self {
            name,
            least,
            most,
            run,
        }
    }

    /// Calls the function. The caller has to call [`Context::check`] afterwards.
    pub(in crate::sql) fn call(
        &self,
        arguments: &[Option<Cow<'_, Value>>],
        context: &Context,
    ) -> Option<Value> {
        (self.run)(&Call { arguments, context })
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The arguments of a call. Reading a long argument is charged, which bounds loops.
pub(super) struct Call<'a> {
    arguments: &'a [Option<Cow<'a, Value>>],
    pub(super) context: &'a Context,
}

impl<'a> Call<'a> {
    pub(super) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// Returns an argument; `None` if it is missing or undefined.
    pub(super) fn value(&self, at: usize) -> Option<&'a Value> {
        self.arguments.get(at)?.as_deref()
    }

    pub(super) fn text(&self, at: usize) -> Option<&'a str> {
        let text = self.value(at)?.as_str()?;
        self.charge(text.len() / 512)?;
        Some(text)
    }

    pub(super) fn items(&self, at: usize) -> Option<&'a [Value]> {
        let items = self.value(at)?.as_array()?;
        self.charge(items.len() / 16)?;
        Some(items)
    }

    pub(super) fn number(&self, at: usize) -> Option<f64> {
        self.value(at)?.as_f64()
    }

    /// Returns an argument that is a 64-bit integer.
    pub(super) fn integer(&self, at: usize) -> Option<i64> {
        integer(self.value(at)?)
    }

    /// Returns an optional argument or its default; `None` if it has another type.
    pub(super) fn optional<T>(
        &self,
        at: usize,
        default: T,
        read: impl Fn(&Self, usize) -> Option<T>,
    ) -> Option<T> {
        if at < self.len() {
            read(self, at)
        } else {
            Some(default)
        }
    }

    /// Returns an optional boolean; the default is false.
    pub(super) fn flag(&self, at: usize) -> Option<bool> {
        self.optional(at, false, |call, at| call.value(at)?.as_bool())
    }

    /// Returns the value of a result. Records a failure in the context.
    pub(super) fn checked<T>(&self, result: Result<T, ServiceError>) -> Option<T> {
        result.map_err(|error| self.context.fail(error)).ok()
    }

    /// Charges work; `None` if the budget is exhausted, which is recorded in the context.
    pub(super) fn charge(&self, units: usize) -> Option<()> {
        self.checked(self.context.spend(units))
    }

    /// Copies a value and charges the work.
    pub(super) fn copy(&self, value: &Value) -> Option<Value> {
        self.checked(self.context.pay(value))?;
        Some(value.clone())
    }
}

/// Returns a number that is a 64-bit integer.
pub(super) fn integer(value: &Value) -> Option<i64> {
    if let Some(integer) = value.as_i64() {
        return Some(integer);
    }
    let number = value.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be a whole number in the range of 64 bits"
    )]
    let whole = (number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0)
        .then_some(number as i64);
    whole
}

/// Returns the result of a calculation; undefined if it is not finite.
pub(super) fn finite(number: f64) -> Option<Value> {
    number.is_finite().then(|| value::number(number))
}
