//! The effects of faults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latency::Latency;

/// The effect of a fault on a request.
///
/// ```
/// use cdb_emulator::{Effect, Fault};
///
/// let throttled = Effect::throttled(std::time::Duration::from_millis(20));
/// // Two rejected requests, one that passes, and a lost response.
/// let script = Fault::script([throttled.clone(), throttled, Effect::Pass, Effect::DropAnswer]);
/// # assert_eq!(script.times, Some(4));
///
/// // The same effects as JSON settings name them.
/// let json = r#"{ "status": { "status": 429, "substatus": 3200, "retryAfterMs": 20 } }"#;
/// assert_eq!(serde_json::from_str::<Effect>(json)?, script.effects[0]);
/// assert_eq!(serde_json::to_string(&Effect::DropAnswer)?, r#""dropAnswer""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum Effect {
    /// Responds with this status; the request is not executed.
    Status {
        /// For example 429, 503, 408, 449.
        status: u16,
        /// The sub-status.
        #[serde(default)]
        substatus: u32,
        /// The delay in milliseconds after which the client may retry.
        #[serde(default)]
        retry_after_ms: Option<u64>,
    },
    /// Breaks the connection; the request is not executed.
    DropRequest,
    /// Executes the request and breaks the connection: the response is lost.
    DropAnswer,
    /// Executes the request and responds with this status.
    StatusAfterEffect {
        /// For example 408 or 500.
        status: u16,
    },
    /// Executes the request after a delay. Delays of several faults add up, and combine with other
    /// effects.
    Delay(Latency),
    /// Sends no response and does not execute the request: the client waits until it gives up. After
    /// 10 minutes, and when the emulator stops, the connection breaks.
    Silence,
    /// Lists the physical partitions of a container as before its last split. A fault with this
    /// effect affects only those listings.
    StaleRanges,
    /// No effect: lets one request of a script pass.
    Pass,
}

impl Effect {
    /// Returns the effect that responds with a status and a sub-status, like 410 and 1002.
    pub fn error(status: u16, substatus: u32) -> Self {
        Self::Status {
            status,
            substatus,
            retry_after_ms: None,
        }
    }

    /// Returns the effect that responds with 429/3200 and the delay after which the client may
    /// retry.
    pub fn throttled(retry_after: Duration) -> Self {
        Self::Status {
            status: 429,
            substatus: 3200,
            retry_after_ms: Some(u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Status { status, .. } | Self::StatusAfterEffect { status } => {
                if (400..=599).contains(status) {
                    Ok(())
                } else {
                    Err(format!(
                        "a fault responds with a status from 400 to 599, but this one is {status}"
                    ))
                }
            }
            Self::Delay(latency) => latency.check(),
            Self::DropRequest
            | Self::DropAnswer
            | Self::Silence
            | Self::StaleRanges
            | Self::Pass => Ok(()),
        }
    }
}
