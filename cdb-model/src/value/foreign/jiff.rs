//! `jiff`: its own forms have no fraction for whole seconds, so they do not sort.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use super::calendar;
use crate::value::scalar::Scalar;
use crate::value::sortable_text::SortableForm;

// A `Zoned` is not: equal times have different time zones.
impl Scalar for Timestamp {}
impl Scalar for DateTime {}
impl Scalar for Date {}
impl Scalar for Time {}

fn narrow(number: i8) -> u8 {
    number.unsigned_abs()
}

fn signed(number: u8) -> Option<i8> {
    number.try_into().ok()
}

fn date(of: Date) -> calendar::Date {
    calendar::Date {
        year: of.year().into(),
        month: narrow(of.month()),
        day: narrow(of.day()),
    }
}

fn civil(date: calendar::Date) -> Option<Date> {
    let year = date.year.try_into().ok()?;
    Date::new(year, signed(date.month)?, signed(date.day)?).ok()
}

impl SortableForm for Date {
    fn to_sortable(&self) -> String {
        date(*self).to_sortable()
    }

    fn from_sortable(text: &str) -> Option<Self> {
        civil(calendar::Date::from_sortable(text)?)
    }
}

impl SortableForm for Timestamp {
    fn to_sortable(&self) -> String {
        let utc = self.to_zoned(TimeZone::UTC).datetime();
        let time = calendar::Time {
            hour: narrow(utc.hour()),
            minute: narrow(utc.minute()),
            second: narrow(utc.second()),
            nanosecond: utc.subsec_nanosecond().unsigned_abs(),
        };
        calendar::to_sortable(date(utc.date()), time)
    }

    fn from_sortable(text: &str) -> Option<Self> {
        let (date, time) = calendar::from_sortable(text)?;
        let nanosecond = time.nanosecond.try_into().ok()?;
        let [hour, minute, second] = [time.hour, time.minute, time.second].map(signed);
        let time = Time::new(hour?, minute?, second?, nanosecond).ok()?;
        let zoned = civil(date)?.to_datetime(time).to_zoned(TimeZone::UTC);
        Some(zoned.ok()?.timestamp())
    }
}
