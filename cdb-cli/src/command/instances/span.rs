//! A span of time as an argument.

use std::time::Duration;

/// Parses a span of a whole number and a unit: `90s`, `15m`, `24h`, `7d`, `2w`.
pub(super) fn parse_span(text: &str) -> Result<Duration, String> {
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
    use crate::output::span;

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
