//! What a fault is, as programs write it in Rust and as the admin route reads it from JSON.

use serde::{Deserialize, Serialize};

use super::Latency;
use crate::observe::OperationKind;

/// A fault: which operations it strikes, how often, and what it does to them.
///
/// In JSON the fields are in camel case, and all but `effects` may be left out:
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
    /// Strikes only these kinds; all data operations when empty. Metadata is struck only when named.
    #[serde(default)]
    pub kinds: Vec<OperationKind>,
    /// What happens: the first effect at the first strike, the second at the next, after the last the first again.
    pub effects: Vec<Effect>,
    /// Strikes this many times and is then gone; for ever when `None`.
    #[serde(default)]
    pub times: Option<u32>,
    /// Strikes with this probability, 0 to 1.
    #[serde(default = "certain")]
    pub probability: f64,
    /// Lets this many matching requests pass first.
    #[serde(default)]
    pub after: u32,
}

fn certain() -> f64 {
    1.0
}

impl Fault {
    /// A fault that strikes the next data operation, once.
    pub fn once(effect: Effect) -> Self {
        Self::script([effect])
    }

    /// A fault that strikes data operations with a probability, for ever.
    pub fn with_probability(effect: Effect, probability: f64) -> Self {
        Self {
            times: None,
            probability,
            ..Self::once(effect)
        }
    }

    /// Faults that let this share of data operations fail, a fifth in each of five ways: refused (503), throttled (429),
    /// lost before they are carried out, lost after, and timed out after (408).
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

    /// A fault that does this to every data operation.
    pub fn always(effect: Effect) -> Self {
        Self::with_probability(effect, certain())
    }

    /// A fault that strikes the next data operations one after the other, each with the effect in its place, and is
    /// then gone. [`Effect::Pass`] spares one.
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

    /// The same fault for one kind of operation; may be called for several.
    #[must_use]
    pub fn on(mut self, kind: OperationKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// The same fault, gone after this many strikes.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// The same fault, letting this many matching requests pass first.
    #[must_use]
    pub fn after(mut self, requests: u32) -> Self {
        self.after = requests;
        self
    }

    /// Whether an operation of this kind can be struck.
    pub(super) fn concerns(&self, kind: OperationKind) -> bool {
        if self.kinds.is_empty() {
            kind != OperationKind::Metadata
        } else {
            self.kinds.contains(&kind)
        }
    }

    /// Says what is wrong with a fault that could never do what it says.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.effects.is_empty() {
            return Err("a fault needs at least one effect".to_owned());
        }
        if self.times == Some(0) {
            return Err("a fault that strikes 0 times does nothing; leave `times` out".to_owned());
        }
        if !(0.0..=1.0).contains(&self.probability) {
            let given = self.probability;
            return Err(format!(
                "a probability lies between 0 and 1, not at {given}"
            ));
        }
        self.effects.iter().try_for_each(Effect::check)
    }
}

/// What a fault does.
///
/// ```
/// use cdb_emulator::{Effect, Fault};
///
/// let throttled = Effect::Status { status: 429, substatus: 3200, retry_after_ms: Some(20) };
/// // Two refusals, one request that goes through, and an answer that nobody hears.
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
    /// Answers with this status and takes no effect.
    Status {
        /// For example 429, 503, 408, 449.
        status: u16,
        /// The sub-status.
        #[serde(default)]
        substatus: u32,
        /// Milliseconds to stay away.
        #[serde(default)]
        retry_after_ms: Option<u64>,
    },
    /// Breaks the connection; the request takes no effect.
    DropRequest,
    /// Carries the request out and breaks the connection: the answer is lost.
    DropAnswer,
    /// Carries the request out and answers with this status all the same.
    StatusAfterEffect {
        /// For example 408 or 500.
        status: u16,
    },
    /// Carries the request out late. Delays of several faults add up, and other effects come on top.
    Delay(Latency),
    /// Nothing: the place in a script of a request that goes through.
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
                        "a fault answers with 400 to 599, not with {status}"
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
    fn a_fault_reads_back_from_the_json_that_it_writes() {
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
    fn what_could_never_strike_is_refused_with_the_reason() {
        let pass = || Fault::once(Effect::Pass);
        let delay = |min, max| {
            let (min, max) = (Duration::from_secs(min), Duration::from_secs(max));
            Fault::once(Effect::Delay(Latency::Uniform { min, max }))
        };
        for (fault, reason) in [
            (Fault::script([]), "at least one effect"),
            (pass().times(0), "0 times"),
            (Fault::with_probability(Effect::Pass, 1.5), "not at 1.5"),
            (
                Fault::with_probability(Effect::Pass, f64::NAN),
                "not at NaN",
            ),
            (
                Fault::once(Effect::StatusAfterEffect { status: 200 }),
                "not with 200",
            ),
            (delay(2, 1), "below"),
            (delay(1, 3601), "10 minutes"),
        ] {
            let said = fault.check().unwrap_err();
            assert!(said.contains(reason), "{said}");
        }
        pass().check().unwrap();
    }
}
