//! Times for people: in UTC, by the service's clock, and spans in their largest unit.

use std::time::Duration;

use cdb_model::Timestamp;

/// `2026-11-21 10:33:01.250Z`.
pub(crate) fn utc(time: Timestamp) -> String {
    let millis = time.as_millis();
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date so many days after 1970-01-01, in the Gregorian calendar: Howard Hinnant's `civil_from_days`, for days from then on.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Counted from March, so that the leap day is the last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// `250 ms`, `12 s`, `3 min`, `4 h`, `2 d`: rounded down.
pub(crate) fn span(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{millis} ms"),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Reads `90s`, `15m`, `24h`, `7d`, `2w`: a whole number and a unit.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let refused = || format!("`{text}` is no span of time; write 90s, 15m, 24h, 7d or 2w");
    let unit = text.chars().last().ok_or_else(refused)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(refused()),
    };
    let number = text
        .strip_suffix(unit)
        .and_then(|number| number.parse::<u64>().ok());
    number
        .and_then(|number| number.checked_mul(seconds))
        .map(Duration::from_secs)
        .ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (millis, text) in [
            (0, "1970-01-01 00:00:00.000Z"),
            (951_782_399_999, "2000-02-28 23:59:59.999Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (1_709_164_800_001, "2024-02-29 00:00:00.001Z"),
            (1_767_225_599_000, "2025-12-31 23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000Z"),
        ] {
            assert_eq!(utc(Timestamp::from_millis(millis)), text);
        }
    }

    #[test]
    fn spans_are_read_and_shown() {
        for (text, seconds, shown) in [
            ("90s", 90, "90 s"),
            ("15m", 900, "15 min"),
            ("24h", 86_400, "24 h"),
            ("2w", 1_209_600, "14 d"),
        ] {
            let read = parse_span(text).unwrap();
            assert_eq!(
                (read, span(read).as_str()),
                (Duration::from_secs(seconds), shown)
            );
        }
        for text in [
            "",
            "s",
            "1",
            "1y",
            "-1s",
            "1.5h",
            "é",
            "99999999999999999999s",
            "9999999999999999999w",
        ] {
            assert!(parse_span(text).is_err(), "{text}");
        }
        assert_eq!(span(Duration::from_millis(999)), "999 ms");
    }
}
