//! Functions on dates: ISO 8601 texts in UTC, ticks of 100 nanoseconds, and milliseconds since
//! 1970.

mod calendar;
mod format;
mod part;

use jiff::civil::{Date, Time};
use serde_json::Value;

pub(super) use calendar::parse;

use crate::sql::context::Ticks;
use crate::sql::function::call::{Call, Function};
use calendar::{print, to_ticks};
use part::Part;

const TICKS_PER_MS: i64 = 10_000;
/// 1601-01-01, the epoch of Windows: bins cannot start earlier.
const FIRST_BIN: Ticks = -11_644_473_600 * 10_000_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("GETCURRENTDATETIME", 0, 0, |call| print(call.context.now())),
    Function::new("GETCURRENTDATETIMESTATIC", 0, 0, |call| {
        print(call.context.now())
    }),
    Function::new("GETCURRENTTICKS", 0, 0, |call| {
        Some(call.context.now().into())
    }),
    Function::new("GETCURRENTTICKSSTATIC", 0, 0, |call| {
        Some(call.context.now().into())
    }),
    Function::new("GETCURRENTTIMESTAMP", 0, 0, |call| {
        Some(milliseconds(call.context.now()))
    }),
    Function::new("GETCURRENTTIMESTAMPSTATIC", 0, 0, |call| {
        Some(milliseconds(call.context.now()))
    }),
    Function::new("NOW", 0, 2, |call| match call.len() {
        0 => print(call.context.now()),
        _ => print(named(call, 0)?.add(call.context.now(), call.integer(1)?)?),
    }),
    Function::new("AGO", 2, 2, |call| {
        let back = call.integer(1)?.checked_neg()?;
        print(named(call, 0)?.add(call.context.now(), back)?)
    }),
    Function::new("DATETIMEADD", 3, 3, |call| {
        print(named(call, 0)?.add(ticks(call, 2)?, call.integer(1)?)?)
    }),
    Function::new("DATETIMEBIN", 2, 4, bin),
    Function::new("DATETIMEDIFF", 3, 3, |call| {
        let part = named(call, 0)?;
        let (start, end) = (part.count(ticks(call, 1)?)?, part.count(ticks(call, 2)?)?);
        Some(end.checked_sub(start)?.into())
    }),
    Function::new("DATETIMEFORMAT", 2, 2, |call| {
        Some(format::format(ticks(call, 0)?, call.text(1)?)?.into())
    }),
    Function::new("DATETIMEFROMPARTS", 3, 7, from_parts),
    Function::new("DATETIMEPART", 2, 2, |call| {
        Some(named(call, 0)?.of(ticks(call, 1)?)?.into())
    }),
    Function::new("YEAR", 1, 1, |call| {
        Some(Part::Year.of(ticks(call, 0)?)?.into())
    }),
    Function::new("MONTH", 1, 1, |call| {
        Some(Part::Month.of(ticks(call, 0)?)?.into())
    }),
    Function::new("DAY", 1, 1, |call| {
        Some(Part::Day.of(ticks(call, 0)?)?.into())
    }),
    Function::new("DATETIMETOTICKS", 1, 1, |call| Some(ticks(call, 0)?.into())),
    Function::new("DATETIMETOTIMESTAMP", 1, 1, |call| {
        Some(milliseconds(ticks(call, 0)?))
    }),
    Function::new("TICKSTODATETIME", 1, 1, |call| print(call.integer(0)?)),
    Function::new("TIMESTAMPTODATETIME", 1, 1, |call| {
        print(call.integer(0)?.checked_mul(TICKS_PER_MS)?)
    }),
];

fn milliseconds(ticks: Ticks) -> Value {
    ticks.div_euclid(TICKS_PER_MS).into()
}

fn ticks(call: &Call<'_>, at: usize) -> Option<Ticks> {
    parse(call.text(at)?)
}

fn named(call: &Call<'_>, at: usize) -> Option<Part> {
    Part::named(call.text(at)?)
}

fn bin(call: &Call<'_>) -> Option<Value> {
    let (date, part) = (ticks(call, 0)?, named(call, 1)?);
    let size = call.optional(2, 1, Call::integer)?;
    let start = call.optional(3, 0, ticks)?;
    if size <= 0 || start < FIRST_BIN {
        return None;
    }
    let width = part.width(size)?;
    let into = (date - start).rem_euclid(width);
    print(date - into)
}

fn from_parts(call: &Call<'_>) -> Option<Value> {
    let part = |at: usize| call.optional(at, 0, Call::integer);
    let small = |at: usize| i8::try_from(part(at)?).ok();
    let date = Date::new(i16::try_from(part(0)?).ok()?, small(1)?, small(2)?).ok()?;
    let nanoseconds = i32::try_from(part(6)?.checked_mul(100)?).ok()?;
    let time = Time::new(small(3)?, small(4)?, small(5)?, nanoseconds).ok()?;
    print(to_ticks(date.to_datetime(time)))
}
