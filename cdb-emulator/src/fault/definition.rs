//! Faults in Rust and in JSON.

use serde::{Deserialize, Serialize};

use super::latency::Latency;
use crate::observe::OperationKind;

/// A fault: the operations that it affects, how often, and its effects.
///
/// In JSON the fields are in camel case, and all but `effects` are optional:
///
/// ```json
/// { "kinds": ["batch"], "effects": ["dropAnswer"], "probability": 0.3 }
/// ```
///
/// ```
/// use cdb_emulator::{Effect, Fault, OperationKind};
///
/// let lost_answer = Fault::once(Effect::DropAnswer).on(OperationKind::Batch).after(10);
/// let bad_day = Fault::in_five_ways(0.05);
/// # drop((lost_answer, bad_day));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// The kinds of operation that the fault affects; all kinds but metadata when empty.
    #[serde(default)]
    pub kinds: Vec<OperationKind>,
    /// The effects: the first affected request gets the first effect, the next one the second, and
    /// so on. After the last effect the first one follows again.
    pub effects: Vec<Effect>,
    /// The number of requests that the fault affects before it is removed; unlimited when `None`.
    #[serde(default)]
    pub times: Option<u32>,
    /// The probability that a matching request is affected, 0 to 1.
    #[serde(default = "certain")]
    pub probability: f64,
    /// The number of matching requests that pass first.
    #[serde(default)]
    pub after: u32,
}

fn certain() -> f64 {
    1.0
}

impl Fault {
    /// Returns a fault that affects the next data operation, once.
    pub fn once(effect: Effect) -> Self {
        Self::script([effect])
    }

    /// Returns a fault that affects data operations with a probability, without an end.
    pub fn with_probability(effect: Effect, probability: f64) -> Self {
        Self {
            times: None,
            probability,
            ..Self::once(effect)
        }
    }

    /// Returns faults that let this share of data operations fail, a fifth of it in each of five
    /// ways: rejected (503), throttled (429), request lost, response lost, and timed out after the
    /// execution (408).
    pub fn in_five_ways(share: f64) -> [Self; 5] {
        let status = |status, retry_after_ms| Effect::Status {
            status,
            substatus: 0,
            retry_after_ms,
        };
        [
            status(503, None),
            status(429, Some(5)),
            Effect::DropRequest,
            Effect::DropAnswer,
            Effect::StatusAfterEffect { status: 408 },
        ]
        .map(|effect| Self::with_probability(effect, share / 5.0))
    }

    /// Returns a fault that affects every data operation.
    pub fn always(effect: Effect) -> Self {
        Self::with_probability(effect, certain())
    }

    /// Returns a fault that affects the next data operations, one effect per operation, and is then
    /// removed. An operation with [`Effect::Pass`] is not affected.
    pub fn script(effects: impl IntoIterator<Item = Effect>) -> Self {
        let effects: Vec<Effect> = effects.into_iter().collect();
        Self {
            kinds: Vec::new(),
            times: Some(u32::try_from(effects.len()).unwrap_or(u32::MAX)),
            effects,
            probability: certain(),
            after: 0,
        }
    }

    /// Restricts the fault to this kind of operation. Call it once per kind.
    #[must_use]
    pub fn on(mut self, kind: OperationKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Removes the fault after this number of affected requests.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets this number of matching requests pass first.
    #[must_use]
    pub fn after(mut self, requests: u32) -> Self {
        self.after = requests;
        self
    }

    /// Returns whether the fault can affect an operation of this kind.
    pub(super) fn concerns(&self, kind: OperationKind) -> bool {
        if self.kinds.is_empty() {
            kind != OperationKind::Metadata
        } else {
            self.kinds.contains(&kind)
        }
    }

    /// Fails with the reason if the fault is invalid.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.effects.is_empty() {
            return Err("a fault needs at least one effect".to_owned());
        }
        if self.times == Some(0) {
            return Err(
                "a fault with `times` 0 has no effect; omit `times` for no limit".to_owned(),
            );
        }
        if !(0.0..=1.0).contains(&self.probability) {
            let given = self.probability;
            return Err(format!(
                "a probability is between 0 and 1, but this one is {given}"
            ));
        }
        self.effects.iter().try_for_each(Effect::check)
    }
}

/// The effect of a fault on a request.
///
/// ```
/// use cdb_emulator::{Effect, Fault};
///
/// let throttled = Effect::Status { status: 429, substatus: 3200, retry_after_ms: Some(20) };
/// // Two rejected requests, one that passes, and a lost response.
/// let script = Fault::script([throttled.clone(), throttled, Effect::Pass, Effect::DropAnswer]);
/// # assert_eq!(script.times, Some(4));
///
/// // The same effects as the admin route and `--faults` read them.
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
    /// No effect: lets one request of a script pass.
    Pass,
}

impl Effect {
    fn check(&self) -> Result<(), String> {
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
            Self::DropRequest | Self::DropAnswer | Self::Pass => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_fault_round_trips_through_json() {
        let ms = Duration::from_millis;
        let latencies = [
            Latency::Fixed(ms(5)),
            Latency::Uniform {
                min: ms(1),
                max: ms(9),
            },
            Latency::Exponential { mean: ms(4) },
            Latency::LogNormal {
                median: ms(3),
                p99: ms(40),
            },
        ];
        let refused = Effect::Status {
            status: 429,
            substatus: 3200,
            retry_after_ms: Some(40),
        };
        let others = [
            refused,
            Effect::DropRequest,
            Effect::DropAnswer,
            Effect::StatusAfterEffect { status: 408 },
            Effect::Pass,
        ];
        let effects = others
            .into_iter()
            .chain(latencies.into_iter().map(Effect::Delay));
        let fault = Fault::script(effects).on(OperationKind::Batch).after(3);
        let text = serde_json::to_string(&fault).unwrap();
        assert_eq!(
            serde_json::from_str::<Fault>(&text).unwrap(),
            fault,
            "{text}"
        );
    }

    #[test]
    fn an_invalid_fault_is_rejected_with_the_reason() {
        let pass = || Fault::once(Effect::Pass);
        let delay = |min, max| {
            let (min, max) = (Duration::from_secs(min), Duration::from_secs(max));
            Fault::once(Effect::Delay(Latency::Uniform { min, max }))
        };
        for (fault, reason) in [
            (Fault::script([]), "at least one effect"),
            (pass().times(0), "`times` 0"),
            (
                Fault::with_probability(Effect::Pass, 1.5),
                "this one is 1.5",
            ),
            (
                Fault::with_probability(Effect::Pass, f64::NAN),
                "this one is NaN",
            ),
            (
                Fault::once(Effect::StatusAfterEffect { status: 200 }),
                "this one is 200",
            ),
            (delay(2, 1), "below"),
            (delay(1, 3601), "10 minutes"),
        ] {
            let reason_found = fault.check().unwrap_err();
            assert!(reason_found.contains(reason), "{reason_found}");
        }
        pass().check().unwrap();
    }
}
