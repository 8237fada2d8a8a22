//! Parts of a date: years to nanoseconds.

use jiff::Span;

use super::calendar::{DAY, SECOND, from_ticks, to_ticks};
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
    /// Finds a part by one of its names.
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

    /// Returns the length of a part; `None` for parts of varying length and for parts shorter than
    /// a tick.
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

    /// Returns the width of a bin of `count` parts, at least one tick. Years and months have no
    /// bins.
    pub(super) fn width(self, count: i64) -> Option<Ticks> {
        match self {
            Self::Nanosecond => Some((count / 100).max(1)),
            _ => self.ticks()?.checked_mul(count),
        }
    }

    /// Adds `count` parts to a date. In a shorter month the result is the month's last day.
    pub(super) fn add(self, ticks: Ticks, count: i64) -> Option<Ticks> {
        let span = match self {
            Self::Year => Span::new().try_years(count),
            Self::Month => Span::new().try_months(count),
            Self::Nanosecond => return ticks.checked_add(count / 100),
            _ => return ticks.checked_add(self.ticks()?.checked_mul(count)?),
        };
        let date = from_ticks(ticks)?.checked_add(span.ok()?);
        date.ok().map(to_ticks)
    }

    /// Counts the boundaries of this part before a date. Only differences of two counts have a
    /// meaning.
    pub(super) fn count(self, ticks: Ticks) -> Option<i64> {
        let date = from_ticks(ticks)?;
        let (year, month) = (i64::from(date.year()), i64::from(date.month()));
        Some(match self {
            Self::Year => year,
            Self::Month => year * 12 + month,
            Self::Nanosecond => ticks.saturating_mul(100),
            _ => ticks.div_euclid(self.ticks()?),
        })
    }

    /// Returns the part of a date. Parts below the second include the larger ones below the second,
    /// as in T-SQL.
    pub(super) fn of(self, ticks: Ticks) -> Option<i64> {
        let date = from_ticks(ticks)?;
        let nanoseconds = i64::from(date.subsec_nanosecond());
        Some(match self {
            Self::Year => date.year().into(),
            Self::Month => date.month().into(),
            Self::Day => date.day().into(),
            Self::Hour => date.hour().into(),
            Self::Minute => date.minute().into(),
            Self::Second => date.second().into(),
            Self::Millisecond => nanoseconds / 1_000_000,
            Self::Microsecond => nanoseconds / 1000,
            Self::Nanosecond => nanoseconds,
        })
    }
}
