//! Limits of settings.

use std::time::Duration;

/// The longest duration that is added to a time. Without a limit the sum may not be representable:
/// an `Instant` overflows, and JSON numbers are exact only up to 2^53.
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
