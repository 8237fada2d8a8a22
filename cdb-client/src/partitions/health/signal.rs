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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::{CallDetails, RequestKind};

    #[test]
    fn unavailability_is_a_failure_and_every_refusal_is_an_answer() {
        let signal = |code, sub| {
            let status = ResponseStatus::new(code, sub);
            let details = CallDetails {
                operation: RequestKind::Read,
                resource: String::new(),
                status: Some(status),
                activity_id: String::new(),
                attempts: 1,
                elapsed: Duration::ZERO,
                retry_after: None,
                charge: 0.0,
                ambiguous: false,
            };
            Signal::of(&Error::new(ErrorKind::of_status(status), "").with_call(details))
        };
        for (code, sub) in [(408, 0), (410, 1007), (500, 0), (503, 0)] {
            assert_eq!(signal(code, sub), Signal::Failure, "{code}/{sub}");
        }
        for (code, sub) in [(404, 0), (404, 1002), (409, 0), (410, 1002), (412, 0)] {
            assert_eq!(signal(code, sub), Signal::Answer, "{code}/{sub}");
        }
        for (code, sub) in [(400, 0), (403, 1014), (449, 0)] {
            assert_eq!(signal(code, sub), Signal::Answer, "{code}/{sub}");
        }
        assert_eq!(signal(429, 3200), Signal::Throttled);
        assert_eq!(Signal::of(&Error::configuration("")), Signal::Nothing);
        let silent = Error::new(ErrorKind::Unavailable, "");
        assert_eq!(Signal::of(&silent), Signal::Failure);
    }
}
