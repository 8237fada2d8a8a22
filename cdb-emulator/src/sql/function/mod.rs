//! The functions of the query language, by family, as tables: name, number of arguments, what it does.
//!
//! A wrong type gives undefined, as in the service. Reference:
//! <https://learn.microsoft.com/azure/cosmos-db/nosql/query/system-functions>.

mod aggregate;
mod array;
pub(super) mod date;
mod integer;
mod math;
mod string;
mod text_json;
mod types;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

pub(crate) use aggregate::Aggregate;

use super::context::Context;

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

/// A function that a query can name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known {
    Scalar(&'static Function),
    Aggregate(Aggregate),
}

const FAMILIES: [&[Function]; 7] = [
    types::FUNCTIONS,
    string::FUNCTIONS,
    text_json::FUNCTIONS,
    array::FUNCTIONS,
    math::FUNCTIONS,
    integer::FUNCTIONS,
    date::FUNCTIONS,
];

/// What the service has and this emulator has not.
const REFUSED: [&str; 8] = [
    "ST_",
    "VECTORDISTANCE",
    "FULLTEXTCONTAINS",
    "FULLTEXTCONTAINSALL",
    "FULLTEXTCONTAINSANY",
    "FULLTEXTSCORE",
    "RRF",
    "DATETIMEFORMAT",
];

/// Finds a function by its name, whatever its case; or says why there is none.
pub(super) fn find(name: &str) -> Result<Known, String> {
    let upper = name.to_ascii_uppercase();
    if let Some(aggregate) = Aggregate::named(&upper) {
        return Ok(Known::Aggregate(aggregate));
    }
    if let Some(function) = FAMILIES
        .into_iter()
        .flatten()
        .find(|known| known.name == upper)
    {
        return Ok(Known::Scalar(function));
    }
    let refused = |known: &str| upper == known || (known == "ST_" && upper.starts_with(known));
    Err(if REFUSED.into_iter().any(refused) {
        format!(
            "'{name}' is not supported by this emulator: it has no spatial, vector and full-text functions and no date formats."
        )
    } else {
        format!("'{name}' is not a recognized built-in function name.")
    })
}

impl Function {
    const fn new(
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
    pub(super) fn call(
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
struct Call<'a> {
    arguments: &'a [Option<Cow<'a, Value>>],
    context: &'a Context,
}

impl<'a> Call<'a> {
    fn len(&self) -> usize {
        self.arguments.len()
    }

    /// The argument, if it is there and defined.
    fn value(&self, at: usize) -> Option<&'a Value> {
        self.arguments.get(at)?.as_deref()
    }

    fn text(&self, at: usize) -> Option<&'a str> {
        let text = self.value(at)?.as_str()?;
        self.affords(text.len() / 512)?;
        Some(text)
    }

    fn items(&self, at: usize) -> Option<&'a [Value]> {
        let items = self.value(at)?.as_array()?;
        self.affords(items.len() / 16)?;
        Some(items)
    }

    fn number(&self, at: usize) -> Option<f64> {
        self.value(at)?.as_f64()
    }

    /// A number without fraction that 64 bits hold.
    fn integer(&self, at: usize) -> Option<i64> {
        integer(self.value(at)?)
    }

    /// An argument that may be left out: what stands for it then, or undefined where it is of another type.
    fn optional<T>(
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
    fn flag(&self, at: usize) -> Option<bool> {
        self.optional(at, false, |call, at| call.value(at)?.as_bool())
    }

    /// Pays for work; `None` when there is not enough left, which the context remembers.
    fn affords(&self, units: usize) -> Option<()> {
        self.context
            .spend(units)
            .map_err(|error| self.context.fail(error))
            .ok()
    }

    /// Pays for a copy.
    fn copy(&self, value: &Value) -> Option<Value> {
        self.context
            .pay(value)
            .map_err(|error| self.context.fail(error))
            .ok()?;
        Some(value.clone())
    }
}

/// A number without fraction that 64 bits hold.
fn integer(value: &Value) -> Option<i64> {
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
fn finite(number: f64) -> Option<Value> {
    number.is_finite().then(|| super::value::number(number))
}
