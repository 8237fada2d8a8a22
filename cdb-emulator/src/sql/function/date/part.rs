//! Parts of a date: years to nanoseconds.

use super::calendar::{DAY, Moment, SECOND, last_day};
use crate::sql::context::Ticks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Part {
    /// By one of its names.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match &*name.to_ascii_lowercase() {
            "year" | "yyyy" | "yy" => Self::Year,
            "month" | "mm" | "m" => Self::Month,
            "day" | "dd" | "d" => Self::Day,
            "hour" | "hh" => Self::Hour,
            "minute" | "mi" | "n" => Self::Minute,
            "second" | "ss" | "s" => Self::Second,
            "millisecond" | "ms" => Self::Millisecond,
            "microsecond" | "mcs" => Self::Microsecond,
            "nanosecond" | "ns" => Self::Nanosecond,
            _ => return None,
        })
    }

    /// Ticks in one, for those that are always equally long and not shorter than a tick.
    fn ticks(self) -> Option<Ticks> {
        Some(match self {
            Self::Year | Self::Month | Self::Nanosecond => return None,
            Self::Day => DAY,
            Self::Hour => 3600 * SECOND,
            Self::Minute => 60 * SECOND,
            Self::Second => SECOND,
            Self::Millisecond => SECOND / 1000,
            Self::Microsecond => SECOND / 1_000_000,
        })
    }

    /// Ticks in so many, for bins; at least one. Years and months have no bins.
    pub(super) fn width(self, count: i64) -> Option<Ticks> {
        match self {
            Self::Nanosecond => Some((count / 100).max(1)),
            _ => self.ticks()?.checked_mul(count),
        }
    }

    /// A moment moved by so many; in a shorter month to its last day.
    pub(super) fn add(self, moment: Ticks, count: i64) -> Option<Ticks> {
        match self {
            Self::Year => add_months(moment, count.checked_mul(12)?),
            Self::Month => add_months(moment, count),
            Self::Nanosecond => moment.checked_add(count / 100),
            _ => moment.checked_add(self.ticks()?.checked_mul(count)?),
        }
    }

    /// How many boundaries lie before a moment; only differences mean something.
    pub(super) fn count(self, moment: Ticks) -> i64 {
        let day = Moment::at(moment);
        match self {
            Self::Year => day.year,
            Self::Month => day.year * 12 + day.month,
            Self::Nanosecond => moment.saturating_mul(100),
            _ => self.ticks().map_or(0, |ticks| moment.div_euclid(ticks)),
        }
    }

    /// The part of a moment; below seconds, all digits of the second down to it, as in T-SQL.
    pub(super) fn of(self, moment: Ticks) -> i64 {
        let day = Moment::at(moment);
        let time = moment.rem_euclid(DAY);
        let fraction = time % SECOND;
        match self {
            Self::Year => day.year,
            Self::Month => day.month,
            Self::Day => day.day,
            Self::Hour => time / (3600 * SECOND),
            Self::Minute => time / (60 * SECOND) % 60,
            Self::Second => time / SECOND % 60,
            Self::Millisecond => fraction / 10_000,
            Self::Microsecond => fraction / 10,
            Self::Nanosecond => fraction * 100,
        }
    }
}

fn add_months(moment: Ticks, count: i64) -> Option<Ticks> {
    let day = Moment::at(moment);
    let months = (day.year * 12 + day.month - 1).checked_add(count)?;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let moved = Moment {
        year,
        month,
        day: day.day.min(last_day(year, month)),
    };
    moved
        .days()?
        .checked_mul(DAY)?
        .checked_add(moment.rem_euclid(DAY))
}
