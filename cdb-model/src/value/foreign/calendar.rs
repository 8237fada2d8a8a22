//! The sortable text of dates and times: `2024-06-19` and `2024-06-19T08:00:00.500000000Z`.
//!
//! Years outside 0 to 9999 have six digits: after `Y` if they are later, as complements after `-` if
//! they are earlier. `-` sorts before digits, and `Y` after them.

use crate::value::sortable_text::{signed, unsigned};

/// A date of the Gregorian calendar.
#[derive(Clone, Copy)]
pub(super) struct Date {
    pub year: i32,
    pub month: u8,
    pub day: u8,
}

/// A time of day.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub hour: u8,
    pub minute: u8,
    /// 60 in a leap second.
    pub second: u8,
    pub nanosecond: u32,
}

impl Date {
    pub(super) fn to_sortable(self) -> String {
        let digits = format!("{:06}", self.year.unsigned_abs());
        let year = match self.year {
            ..0 => signed(true, &digits),
            0..=9999 => format!("{:04}", self.year),
            _ => format!("Y{digits}"),
        };
        format!("{year}-{:02}-{:02}", self.month, self.day)
    }

    /// Reads the text. The caller checks that the date exists.
    pub(super) fn from_sortable(text: &str) -> Option<Self> {
        let (year, rest) = text.split_at_checked(text.len().checked_sub(6)?)?;
        let (is_negative, digits) = unsigned(year);
        let year: i32 = digits.trim_start_matches('Y').parse().ok()?;
        Some(Self {
            year: if is_negative { -year } else { year },
            month: rest.get(1..3)?.parse().ok()?,
            day: rest.get(4..6)?.parse().ok()?,
        })
    }
}

/// Returns the text of a time in UTC.
pub(super) fn to_sortable(date: Date, time: Time) -> String {
    let Time {
        hour,
        minute,
        second,
        nanosecond,
    } = time;
    let date = date.to_sortable();
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{nanosecond:09}Z")
}

/// Reads the text of a time in UTC. The caller checks that the date and time exist.
pub(super) fn from_sortable(text: &str) -> Option<(Date, Time)> {
    let (date, time) = text.split_once('T')?;
    let time = Time {
        hour: time.get(..2)?.parse().ok()?,
        minute: time.get(3..5)?.parse().ok()?,
        second: time.get(6..8)?.parse().ok()?,
        nanosecond: time.get(9..18)?.parse().ok()?,
    };
    Some((Date::from_sortable(date)?, time))
}
