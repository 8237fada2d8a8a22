//! What the end of a request says about its physical partition.

use crate::error::{Error, ErrorKind, ResponseStatus};

/// What the end of a request says about its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Answer,
    /// The partition answers that it has no throughput left.
    Throttled,
    Failure,
    Nothing,
}

impl Signal {
    /// Returns what a status says. A throttled partition has answered, and so has one that was split.
    pub(super) fn of_status(status: ResponseStatus) -> Self {
        match status {
            ResponseStatus::RANGE_GONE => Self::Answer,
            status if status.code == 429 => Self::Throttled,
            status if matches!(status.code, 408 | 410 | 500..=599) => Self::Failure,
            _ => Self::Answer,
        }
    }

    /// Returns what an error says.
    pub(super) fn of(error: &Error) -> Self {
        match error.status() {
            Some(status) => Self::of_status(status),
            None if error.kind() == ErrorKind::Unavailable => Self::Failure,
            None => Self::Nothing,
        }
    }
}
