//! Dates and times: ISO 8601 texts in UTC, ticks of 100 nanoseconds and milliseconds since 1970.

mod calendar;
mod part;

use serde_json::Value;

pub(super) use calendar::parse;

use super::call::{Call, Function};
use crate::sql::context::Ticks;
use calendar::{DAY, Moment, print};
use part::Part;

const TICKS_PER_MS: i64 = 10_000;
/// 1601-01-01, the epoch of Windows: bins cannot start before.
const FIRST_BIN: Ticks = -11_644_473_600 * 10_000_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("GETCURRENTDATETIME", (0, 0), |call| {
        print(call.context.now())
    }),
    Function::new("GETCURRENTDATETIMESTATIC", (0, 0), |call| {
        print(call.context.now())
    }),
    Function::new("GETCURRENTTICKS", (0, 0), |call| {
        Some(call.context.now().into())
    }),
    Function::new("GETCURRENTTICKSSTATIC", (0, 0), |call| {
        Some(call.context.now().into())
    }),
    Function::new("GETCURRENTTIMESTAMP", (0, 0), |call| {
        Some(milliseconds(call.context.now()))
    }),
    Function::new("GETCURRENTTIMESTAMPSTATIC", (0, 0), |call| {
        Some(milliseconds(call.context.now()))
    }),
    Function::new("NOW", (0, 2), |call| match call.len() {
        0 => print(call.context.now()),
        _ => print(named(call, 0)?.add(call.context.now(), call.integer(1)?)?),
    }),
    Function::new("AGO", (2, 2), |call| {
        let back = call.integer(1)?.checked_neg()?;
        print(named(call, 0)?.add(call.context.now(), back)?)
    }),
    Function::new("DATETIMEADD", (3, 3), |call| {
        print(named(call, 0)?.add(moment(call, 2)?, call.integer(1)?)?)
    }),
    Function::new("DATETIMEBIN", (2, 4), bin),
    Function::new("DATETIMEDIFF", (3, 3), |call| {
        let part = named(call, 0)?;
        let (start, end) = (part.count(moment(call, 1)?), part.count(moment(call, 2)?));
        Some(end.checked_sub(start)?.into())
    }),
    Function::new("DATETIMEFROMPARTS", (3, 7), from_parts),
    Function::new("DATETIMEPART", (2, 2), |call| {
        Some(named(call, 1)?.of(moment(call, 0)?).into())
    }),
    Function::new("YEAR", (1, 1), |call| {
        Some(Part::Year.of(moment(call, 0)?).into())
    }),
    Function::new("MONTH", (1, 1), |call| {
        Some(Part::Month.of(moment(call, 0)?).into())
    }),
    Function::new("DAY", (1, 1), |call| {
        Some(Part::Day.of(moment(call, 0)?).into())
    }),
    Function::new("DATETIMETOTICKS", (1, 1), |call| {
        Some(moment(call, 0)?.into())
    }),
    Function::new("DATETIMETOTIMESTAMP", (1, 1), |call| {
        Some(milliseconds(moment(call, 0)?))
    }),
    Function::new("TICKSTODATETIME", (1, 1), |call| print(call.integer(0)?)),
    Function::new("TIMESTAMPTODATETIME", (1, 1), |call| {
        print(call.integer(0)?.checked_mul(TICKS_PER_MS)?)
    }),
];

fn milliseconds(ticks: Ticks) -> Value {
    ticks.div_euclid(TICKS_PER_MS).into()
}

fn moment(call: &Call<'_>, at: usize) -> Option<Ticks> {
    parse(call.text(at)?)
}

fn named(call: &Call<'_>, at: usize) -> Option<Part> {
    Part::named(call.text(at)?)
}

fn bin(call: &Call<'_>) -> Option<Value> {
    let (moment, part) = (moment(call, 0)?, named(call, 1)?);
    let size = call.optional(2, 1, Call::integer)?;
    let start = call.optional(3, 0, self::moment)?;
    if size <= 0 || start < FIRST_BIN {
        return None;
    }
    let width = part.width(size)?;
    let into = (moment - start).rem_euclid(width);
    print(moment - into)
}

fn from_parts(call: &Call<'_>) -> Option<Value> {
    let read = |at: usize| call.optional(at, 0, Call::integer);
    let days = Moment {
        year: read(0)?,
        month: read(1)?,
        day: read(2)?,
    }
    .days()?;
    let clock = [(3, 24), (4, 60), (5, 60), (6, 10_000_000)];
    let mut time = 0;
    for (at, end) in clock {
        let value = read(at)?;
        if !(0..end).contains(&value) {
            return None;
        }
        time = time * end + value;
    }
    print(days * DAY + time)
}
