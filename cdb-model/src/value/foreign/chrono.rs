//! `chrono`: its own forms have no fraction for whole seconds, so they do not sort.

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _, Utc};

use super::calendar::{self, Date, Time};
use crate::value::scalar::Scalar;
use crate::value::sortable_text::SortableForm;

/// The nanosecond from which chrono means the leap second that follows.
const LEAP: u32 = 1_000_000_000;

// A `DateTime<FixedOffset>` is not: equal times have different offsets.
impl Scalar for DateTime<Utc> {}
impl Scalar for NaiveDateTime {}
impl Scalar for NaiveDate {}
impl Scalar for NaiveTime {}

fn narrow(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn date(of: NaiveDate) -> Date {
    Date {
        year: of.year(),
        month: narrow(of.month()),
        day: narrow(of.day()),
    }
}

fn naive_date(date: Date) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(date.year, date.month.into(), date.day.into())
}

impl SortableForm for NaiveDate {
    fn to_sortable(&self) -> String {
        date(*self).to_sortable()
    }

    fn from_sortable(text: &str) -> Option<Self> {
        naive_date(Date::from_sortable(text)?)
    }
}

impl SortableForm for DateTime<Utc> {
    fn to_sortable(&self) -> String {
        let leap = u32::from(self.nanosecond() >= LEAP);
        let time = Time {
            hour: narrow(self.hour()),
            minute: narrow(self.minute()),
            second: narrow(self.second() + leap),
            nanosecond: self.nanosecond() - leap * LEAP,
        };
        calendar::to_sortable(date(self.date_naive()), time)
    }

    fn from_sortable(text: &str) -> Option<Self> {
        let (date, time) = calendar::from_sortable(text)?;
        let leap = u32::from(time.second == 60);
        let time = naive_date(date)?.and_hms_nano_opt(
            time.hour.into(),
            time.minute.into(),
            u32::from(time.second) - leap,
            time.nanosecond + leap * LEAP,
        );
        Some(time?.and_utc())
    }
}
