//! Days, years and the text of a moment. The proleptic Gregorian calendar, years 1 to 9999, as in .NET.

use serde_json::Value;

use crate::sql::context::Ticks;

pub(super) const SECOND: Ticks = 10_000_000;
pub(super) const DAY: Ticks = 86_400 * SECOND;

/// A day of the calendar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
}

impl Moment {
    /// The day that a moment lies in. By Howard Hinnant's `civil_from_days`: years begin in March, eras have 400 years.
    pub(super) fn at(ticks: Ticks) -> Self {
        let days = ticks.div_euclid(DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
        }
    }

    /// Days since 1970, if there is such a day.
    pub(super) fn days(self) -> Option<i64> {
        let Self { year, month, day } = self;
        let exists = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=last_day(year, month)).contains(&day);
        if !exists {
            return None;
        }
        let shifted = if month <= 2 { year - 1 } else { year };
        let era = shifted.div_euclid(400);
        let year_of_era = shifted.rem_euclid(400);
        let from_march = if month > 2 { month - 3 } else { month + 9 };
        let of_year = (153 * from_march + 2) / 5 + day - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        Some(era * 146_097 + of_era - 719_468)
    }
}

/// The last day of a month.
pub(super) fn last_day(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `YYYY-MM-DDThh:mm:ss.fffffffZ`, if the year has four digits.
pub(super) fn print(ticks: Ticks) -> Option<Value> {
    let Moment { year, month, day } = Moment::at(ticks);
    if !(1..=9999).contains(&year) {
        return None;
    }
    let time = ticks.rem_euclid(DAY);
    let (seconds, fraction) = (time / SECOND, time % SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let text =
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z");
    Some(text.into())
}

/// A moment from its text: the day alone, or with `T` or a space the time to seconds or up to seven digits below; `Z` may
/// be missing. These are the rules that the reference of `IS_DATETIME` lists.
pub(in crate::sql::function) fn parse(text: &str) -> Option<Ticks> {
    let rest = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = match rest.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (rest, None),
    };
    let mut fields = date.split('-');
    let day = Moment {
        year: digits(fields.next()?, 4)?,
        month: digits(fields.next()?, 2)?,
        day: digits(fields.next()?, 2)?,
    };
    if fields.next().is_some() {
        return None;
    }
    Some(day.days()? * DAY + time.map_or(Some(0), parse_time)?)
}

fn parse_time(text: &str) -> Option<Ticks> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut fields = clock.split(':');
    let (hour, minute, second) = (
        digits(fields.next()?, 2)?,
        digits(fields.next()?, 2)?,
        digits(fields.next()?, 2)?,
    );
    if fields.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = match fraction {
        None => 0,
        Some(fraction) if (1..=7).contains(&fraction.len()) => {
            digits(&format!("{fraction:0<7}"), 7)?
        }
        Some(_) => return None,
    };
    Some((hour * 3600 + minute * 60 + second) * SECOND + fraction)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}
