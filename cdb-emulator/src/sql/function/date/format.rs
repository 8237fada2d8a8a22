//! Dates in a format of the caller, with the specifiers of .NET.

use super::calendar::from_ticks;
use crate::sql::context::Ticks;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// Formats a date. A run of a letter is a specifier; other characters, and text in single quotation
/// marks, are copied.
pub(super) fn format(ticks: Ticks, pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            out.extend(chars.by_ref().take_while(|c| *c != '\''));
            continue;
        }
        let mut count = 1;
        while c.is_ascii_alphabetic() && chars.next_if_eq(&c).is_some() {
            count += 1;
        }
        out.push_str(&part(ticks, c, count)?);
    }
    Some(out)
}

/// Returns the text of a specifier, a letter and how often it is repeated. Other characters are
/// copied.
fn part(ticks: Ticks, letter: char, count: usize) -> Option<String> {
    let date = from_ticks(ticks)?;
    let number = |number: i64| format!("{number:0count$}");
    let short = |name: &str| name.chars().take(3).collect::<String>();
    let month = MONTHS[usize::try_from(date.month() - 1).ok()?];
    let day = DAYS[usize::try_from(date.weekday().to_monday_zero_offset()).ok()?];
    let hour = i64::from(date.hour());
    Some(match (letter, count) {
        ('y', 1 | 2) => number(i64::from(date.year()) % 100),
        ('y', 3..) => number(date.year().into()),
        ('M', 1 | 2) => number(date.month().into()),
        ('M', 3) => short(month),
        ('M', 4..) => month.to_owned(),
        ('d', 1 | 2) => number(date.day().into()),
        ('d', 3) => short(day),
        ('d', 4..) => day.to_owned(),
        ('H', 1 | 2) => number(hour),
        ('h', 1 | 2) => number((hour + 11) % 12 + 1),
        ('m', 1 | 2) => number(date.minute().into()),
        ('s', 1 | 2) => number(date.second().into()),
        ('f', 1..=7) => format!("{:09}", date.subsec_nanosecond())[..count].to_owned(),
        ('t', 1) => if hour < 12 { "A" } else { "P" }.to_owned(),
        ('t', 2..) => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        (letter, count) => letter.to_string().repeat(count),
    })
}
