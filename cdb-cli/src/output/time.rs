//! Spans of time as text, in their largest unit, and as milliseconds in JSON.

use std::time::Duration;

use serde::Serialize as _;

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

/// Serializes a span as milliseconds.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn milliseconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    duration.map(millis).serialize(to)
}
