//! Ticks as calendar dates and as text: the proleptic Gregorian calendar, years 1 to 9999, as in
//! .NET.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use serde_json::Value;

use crate::sql::context::Ticks;

pub(super) const SECOND: Ticks = 10_000_000;
pub(super) const DAY: Ticks = 86_400 * SECOND;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// The longest form of a date; `0` stands for a digit.
const FORM: &[u8] = b"0000-00-00T00:00:00.0000000";

/// Returns the date of ticks; `None` outside of the years 1 to 9999.
pub(super) fn from_ticks(ticks: Ticks) -> Option<DateTime> {
    let nanoseconds = i32::try_from(ticks.rem_euclid(SECOND) * 100).ok()?;
    let since = SignedDuration::new(ticks.div_euclid(SECOND), nanoseconds);
    let date = EPOCH.checked_add(since).ok()?;
    (date.year() >= 1).then_some(date)
}

/// Returns the ticks of a date.
pub(super) fn to_ticks(date: DateTime) -> Ticks {
    let since = date.duration_since(EPOCH);
    since.as_secs() * SECOND + Ticks::from(since.subsec_nanos()) / 100
}

/// Formats ticks as `YYYY-MM-DDThh:mm:ss.fffffffZ`.
pub(super) fn print(ticks: Ticks) -> Option<Value> {
    Some(format!("{:.7}Z", from_ticks(ticks)?).into())
}

/// Parses a date: the day alone, or with `T` or a space the time to the second or to seven digits
/// below; `Z` is optional. These are the rules in the reference of `IS_DATETIME`.
pub(in crate::sql::function) fn parse(text: &str) -> Option<Ticks> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b' '),
        other => byte == *other,
    };
    let has_form = matches!(text.len(), 10 | 19 | 21..=27) && text.bytes().zip(FORM).all(fits);
    let is_leap_second = text.get(17..19) == Some("60");
    if !has_form || is_leap_second {
        return None;
    }
    let date: DateTime = text.parse().ok()?;
    (date.year() >= 1).then(|| to_ticks(date))
}
