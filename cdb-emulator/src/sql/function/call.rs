//! A function, a call of one, and how it reads its arguments.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::error::ServiceError;
use crate::sql::context::Context;
use crate::sql::value;

/// A function of one row.
pub(crate) struct Function {
    /// Its name, in upper case; queries may write it in any.
    pub(crate) name: &'static str,
    /// How many arguments it takes at least.
    pub(crate) least: usize,
    /// How many arguments it takes at most.
    pub(crate) most: usize,
    run: fn(&Call<'_>) -> Option<Value>,
}

impl Function {
    pub(super) const fn new(
        name: &'static str,
        (least, most): (usize, usize),
        run: fn(&Call<'_>) -> Option<Value>,
    ) -> Self {
        Self {
            name,
            least,
            most,
            run,
        }
    }

    /// Calls it. Whoever calls asks the context afterwards whether that went well.
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

/// The arguments of a call. Reading long ones is paid for, so that a loop over them ends.
pub(super) struct Call<'a> {
    arguments: &'a [Option<Cow<'a, Value>>],
    pub(super) context: &'a Context,
}

impl<'a> Call<'a> {
    pub(super) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// The argument, if it is there and defined.
    pub(super) fn value(&self, at: usize) -> Option<&'a Value> {
        self.arguments.get(at)?.as_deref()
    }

    pub(super) fn text(&self, at: usize) -> Option<&'a str> {
        let text = self.value(at)?.as_str()?;
        self.affords(text.len() / 512)?;
        Some(text)
    }

    pub(super) fn items(&self, at: usize) -> Option<&'a [Value]> {
        let items = self.value(at)?.as_array()?;
        self.affords(items.len() / 16)?;
        Some(items)
    }

    pub(super) fn number(&self, at: usize) -> Option<f64> {
        self.value(at)?.as_f64()
    }

    /// A number without fraction that 64 bits hold.
    pub(super) fn integer(&self, at: usize) -> Option<i64> {
        integer(self.value(at)?)
    }

    /// An argument that may be left out: what stands for it then, or undefined where it is of another type.
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

    /// An optional boolean, false when left out.
    pub(super) fn flag(&self, at: usize) -> Option<bool> {
        self.optional(at, false, |call, at| call.value(at)?.as_bool())
    }

    /// Returns a result's value, or `None` for a failure, which the context remembers.
    pub(super) fn checked<T>(&self, result: Result<T, ServiceError>) -> Option<T> {
        result.map_err(|error| self.context.fail(error)).ok()
    }

    /// Pays for work; `None` when there is not enough left, which the context remembers.
    pub(super) fn affords(&self, units: usize) -> Option<()> {
        self.checked(self.context.spend(units))
    }

    /// Pays for a copy.
    pub(super) fn copy(&self, value: &Value) -> Option<Value> {
        self.checked(self.context.pay(value))?;
        Some(value.clone())
    }
}

/// A number without fraction that 64 bits hold.
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

/// What a calculation gives; a result that is no number of JSON is undefined.
pub(super) fn finite(number: f64) -> Option<Value> {
    number.is_finite().then(|| value::number(number))
}
