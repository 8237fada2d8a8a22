//! `time`: its own form is an array, which filters cannot compare.

use time::{Date, Month, OffsetDateTime, Time, UtcOffset};

use super::calendar;
use crate::value::sortable_text::SortableForm;

fn date(of: Date) -> calendar::Date {
    calendar::Date {
        year: of.year(),
        month: of.month().into(),
        day: of.day(),
    }
}

fn civil(date: calendar::Date) -> Option<Date> {
    let month = Month::try_from(date.month).ok()?;
    Date::from_calendar_date(date.year, month, date.day).ok()
}

impl SortableForm for Date {
    fn to_sortable(&self) -> String {
        date(*self).to_sortable()
    }

    fn from_sortable(text: &str) -> Option<Self> {
        civil(calendar::Date::from_sortable(text)?)
    }
}

/// Stored in UTC: equal times have different offsets.
impl SortableForm for OffsetDateTime {
    fn to_sortable(&self) -> String {
        let utc = self.to_offset(UtcOffset::UTC);
        let (hour, minute, second, nanosecond) = utc.to_hms_nano();
        let time = calendar::Time {
            hour,
            minute,
            second,
            nanosecond,
        };
        calendar::to_sortable(date(utc.date()), time)
    }

    fn from_sortable(text: &str) -> Option<Self> {
        let (date, time) = calendar::from_sortable(text)?;
        let time = Time::from_hms_nano(time.hour, time.minute, time.second, time.nanosecond);
        Some(Self::new_utc(civil(date)?, time.ok()?))
    }
}
