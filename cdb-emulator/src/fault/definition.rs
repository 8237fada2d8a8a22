//! Faults in Rust and in JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::target::Target;
use crate::protocol::OperationKind;
use crate::time::millis;

/// A fault: the operations that it affects, how often, and its effects.
///
/// In JSON the fields are in camel case, and all but `effects` are optional:
///
/// ```json
/// { "kinds": ["batch"], "effects": ["dropAnswer"], "probability": 0.3 }
/// ```
///
/// ```
/// use std::time::Duration;
/// use cdb_emulator::{Effect, Fault, OperationKind};
///
/// let lost_answer = Fault::once(Effect::DropAnswer).on(OperationKind::Batch).after(10);
/// let bad_day = Fault::in_five_ways(0.05);
/// let sick_partition = Fault::always(Effect::Silence)
///     .on_partition("3")
///     .lasting(Duration::from_secs(60));
/// # drop((lost_answer, bad_day, sick_partition));
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
    /// The time after which the fault is removed; unlimited when `None`. In JSON `durationMs`.
    #[serde(
        default,
        rename = "durationMs",
        with = "millis::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    /// The database of [`container`](Self::container).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The container that the fault affects; all containers when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The name of the region that the fault affects; all regions when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The ids of the physical partitions that the fault affects; all when empty. A request that
    /// reaches several partitions, like a query of a whole container, is affected if one of them is
    /// in this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
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
            duration: None,
            database: None,
            container: None,
            region: None,
            partitions: Vec::new(),
        }
    }

    /// Returns a fault that lists the physical partitions as before the last split of the
    /// container, without an end. It affects only those listings.
    pub fn stale_ranges() -> Self {
        Self::always(Effect::StaleRanges)
    }

    /// Returns the fault of a partition whose split is not complete.
    pub(crate) fn splitting(parent: &str, children: &[String; 2]) -> Self {
        let incomplete = Self::always(Effect::error(410, 1007));
        let [low, high] = children;
        incomplete
            .on_partition(parent)
            .on_partition(low)
            .on_partition(high)
    }

    /// Restricts the fault to this kind of operation. Call it once per kind.
    #[must_use]
    pub fn on(mut self, kind: OperationKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Restricts the fault to one physical partition, by its id. Call it once per partition. Ids are
    /// unique in a container; see [`in_container`](Self::in_container). After a split the fault
    /// still affects requests that name the split partition, but no requests to its children.
    #[must_use]
    pub fn on_partition(mut self, range_id: impl Into<String>) -> Self {
        self.partitions.push(range_id.into());
        self
    }

    /// Restricts the fault to a container, by the names of its database and of itself.
    #[must_use]
    pub fn in_container(mut self, database: &str, container: &str) -> Self {
        self.database = Some(database.to_owned());
        self.container = Some(container.to_owned());
        self
    }

    /// Restricts the fault to the requests that one region receives.
    #[must_use]
    pub fn in_region(mut self, name: impl Into<String>) -> Self {
        self.region = Some(name.into());
        self
    }

    /// Lets the fault affect all kinds of operation, also metadata.
    #[must_use]
    pub fn on_every_kind(mut self) -> Self {
        self.kinds = OperationKind::ALL.to_vec();
        self
    }

    /// Removes the fault this time after it was injected.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
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

    /// Returns whether the fault can affect a request.
    pub(super) fn concerns(&self, target: &Target) -> bool {
        let kind = if self.is_for_listings() {
            target.lists_ranges
        } else if self.kinds.is_empty() {
            target.kind != OperationKind::Metadata
        } else {
            self.kinds.contains(&target.kind)
        };
        let container = self.container.is_none()
            || target.container.as_ref().is_some_and(|name| {
                self.database.as_ref() == Some(&name.database)
                    && self.container.as_ref() == Some(&name.container)
            });
        let region = self.region.as_deref();
        let region = region.is_none_or(|region| region == target.region);
        kind && container
            && region
            && (self.partitions.is_empty() || target.reaches(&self.partitions))
    }

    /// Returns whether the fault affects only listings of physical partitions.
    fn is_for_listings(&self) -> bool {
        self.effects.contains(&Effect::StaleRanges)
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
        if self.container.is_some() != self.database.is_some() {
            return Err("name a container together with its database".to_owned());
        }
        let has_metadata =
            self.is_for_listings() || self.kinds.as_slice() == [OperationKind::Metadata];
        if has_metadata && !self.partitions.is_empty() {
            return Err("metadata belongs to no physical partition; omit `partitions`".to_owned());
        }
        self.effects.iter().try_for_each(Effect::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Latency;

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
            Effect::Silence,
            Effect::StaleRanges,
            Effect::Pass,
        ];
        let effects = others
            .into_iter()
            .chain(latencies.into_iter().map(Effect::Delay));
        let fault = Fault::script(effects)
            .on(OperationKind::Batch)
            .after(3)
            .in_container("db", "c")
            .in_region("West US")
            .on_partition("7")
            .lasting(ms(1500));
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
            (
                Fault::stale_ranges().on_partition("0"),
                "no physical partition",
            ),
            (
                Fault {
                    container: Some("c".to_owned()),
                    ..pass()
                },
                "together with its database",
            ),
        ] {
            let reason_found = fault.check().unwrap_err();
            assert!(reason_found.contains(reason), "{reason_found}");
        }
        pass().check().unwrap();
    }
}
