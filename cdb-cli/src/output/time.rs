//! Text forms of spans, in their largest unit, and the time of the machine.

use std::time::Duration;

use cdb_model::Timestamp;
use serde::Serialize as _;

/// The time of this machine, for commands without a connection. All others take the service's time.
pub(crate) fn now() -> Timestamp {
    let millis = jiff::Timestamp::now().as_millisecond();
    Timestamp::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// Formats a span, rounded down: `250 ms`, `12 s`, `3 min`, `4 h`, `2 d`.
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

/// Returns the milliseconds of a span.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Serializes a span as milliseconds.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn milliseconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    duration.map(millis).serialize(to)
}

/// Serializes a span as milliseconds.
pub(crate) fn always_milliseconds<S: serde::Serializer>(
    duration: &Duration,
    to: S,
) -> Result<S::Ok, S::Error> {
    millis(*duration).serialize(to)
}

/// Parses a span of a whole number and a unit: `90s`, `15m`, `24h`, `7d`, `2w`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let invalid = || format!("`{text}` is not a span of time; write 90s, 15m, 24h, 7d or 2w");
    let unit = text.chars().last().ok_or_else(invalid)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(invalid()),
    };
    let number = text
        .strip_suffix(unit)
        .and_then(|number| number.parse::<u64>().ok());
    number
        .and_then(|number| number.checked_mul(seconds))
        .map(Duration::from_secs)
        .ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_parsed_and_formatted() {
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
