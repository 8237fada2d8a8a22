//! How an attempt ended, and whether a write may have taken effect.

use std::time::Duration;

use crate::error::ResponseStatus;
use crate::protocol::Response;
use crate::transport::{Delivery, TransportError};

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The service answered.
    Answered {
        status: ResponseStatus,
        /// `x-ms-retry-after-ms`.
        retry_after: Option<Duration>,
    },
    /// No complete answer arrived in time.
    NoAnswer(Delivery),
}

impl Outcome {
    pub(crate) fn of(answer: &Result<Response, TransportError>) -> Self {
        match answer {
            Ok(response) => Self::Answered {
                status: response.status,
                retry_after: response.retry_after(),
            },
            Err(error) => Self::NoAnswer(error.delivery),
        }
    }

    /// Whether a write may have taken effect. The service sends 408 and 500 during execution,
    /// proxies send 502 and 504. The service sends 503 only before execution.
    pub(crate) fn is_unknown(self) -> bool {
        match self {
            Self::Answered { status, .. } => matches!(status.code, 408 | 500 | 502 | 504),
            Self::NoAnswer(delivery) => matches!(delivery, Delivery::Unknown | Delivery::TooLong),
        }
    }

    /// Whether this attempt may cause a later refusal: its outcome is unknown, or it is a 503. A
    /// 503 of the service is retried because it was not executed, but a proxy may send one after
    /// execution (azure_data_cosmos_driver `retry_evaluation.rs`).
    pub(crate) fn is_doubtful(self) -> bool {
        let unavailable = matches!(self, Self::Answered { status, .. } if status.code == 503);
        unavailable || self.is_unknown()
    }
}
