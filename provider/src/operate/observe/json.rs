//! Spans of time as milliseconds, for JSON.

use std::time::Duration;

use serde::{Serialize as _, Serializer};

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Serializes a span as milliseconds.
pub(super) fn milliseconds<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    millis(*span).serialize(to)
}

/// Serializes a span, if there is one, as milliseconds.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(super) fn some_milliseconds<S: Serializer>(
    span: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    span.map(millis).serialize(to)
}

/// Returns whether a count is left out.
pub(super) fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}
