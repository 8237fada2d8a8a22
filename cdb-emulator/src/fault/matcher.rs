//! Matches requests with faults. The result depends on the seed, on earlier requests, and on the
//! time only for faults with a duration.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::definition::Fault;
use super::effect::Effect;
use super::latency::Latency;
use super::random::Random;
use super::target::Target;
use crate::time::Clock;

/// All faults of a server.
#[derive(Debug)]
pub(crate) struct Faults {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    clock: Clock,
    seed: u64,
    /// The delay of every request, metadata too.
    latency: Latency,
    random: Random,
    active: Vec<ActiveFault>,
    /// The number of faults that were added since the seed was set.
    added: u64,
}

/// A fault and its progress.
#[derive(Debug)]
struct ActiveFault {
    fault: Fault,
    /// The number of requests that it affected.
    struck: u64,
    /// The number of matching requests that passed because of [`Fault::after`].
    passed: u32,
    /// The end of [`Fault::duration`].
    until: Option<Duration>,
    random: Random,
}

/// A fault and its progress, as `/_admin/settings` shows them.
#[derive(Clone, Debug, Serialize)]
struct FaultState {
    #[serde(flatten)]
    fault: Fault,
    struck: u64,
}

/// The seed, the latency and all active faults.
#[derive(Debug, Serialize)]
pub(crate) struct FaultsState {
    seed: u64,
    latency: Latency,
    faults: Vec<FaultState>,
}

/// What the active faults distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetDetail {
    /// Nothing: there is only the latency of all requests.
    Everything,
    /// Kinds of requests and the names of what they reach.
    Requests,
    /// Also the physical partitions that a request reaches.
    Partitions,
}

/// The faults that apply to a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Injection {
    pub(crate) delay: Duration,
    pub(crate) effect: Option<Effect>,
}

impl Faults {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            state: Mutex::new(State {
                clock,
                seed: 0,
                latency: Latency::NONE,
                random: Random::new(0, u64::MAX),
                active: Vec::new(),
                added: 0,
            }),
        }
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.state().add(fault);
    }

    pub(crate) fn clear(&self) {
        self.state().active.clear();
    }

    pub(crate) fn latency(&self) -> Latency {
        self.state().latency
    }

    /// Sets the latency, restarts the random numbers if there is a seed, and adds the faults,
    /// atomically.
    pub(crate) fn apply(&self, latency: Latency, seed: Option<u64>, faults: Vec<Fault>) {
        let mut state = self.state();
        state.latency = latency;
        if let Some(seed) = seed {
            state.seed(seed);
        }
        for fault in faults {
            state.add(fault);
        }
    }

    pub(crate) fn all(&self) -> FaultsState {
        let mut state = self.state();
        state.remove_spent();
        let faults = state.active.iter().map(|active| FaultState {
            fault: active.fault.clone(),
            struck: active.struck,
        });
        FaultsState {
            seed: state.seed,
            latency: state.latency,
            faults: faults.collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the faults distinguish.
    pub(crate) fn target_detail(&self) -> TargetDetail {
        let state = self.state();
        let mut faults = state.active.iter();
        if faults.any(|active| !active.fault.partitions.is_empty()) {
            TargetDetail::Partitions
        } else if state.active.is_empty() {
            TargetDetail::Everything
        } else {
            TargetDetail::Requests
        }
    }

    /// Returns the faults for the next request to this target, and counts it. Delays add up; of
    /// other effects the first matching fault wins.
    pub(crate) fn next(&self, target: &Target) -> Injection {
        let mut state = self.state();
        state.remove_spent();
        let State {
            latency, random, ..
        } = &mut *state;
        let mut injection = Injection {
            delay: latency.sample(random),
            effect: None,
        };
        for active in &mut state.active {
            match active.next(target) {
                None => {}
                Some(Effect::Delay(latency)) => {
                    injection.delay += latency.sample(&mut active.random);
                }
                effect => {
                    injection.effect = effect;
                    break;
                }
            }
        }
        state.remove_spent();
        injection
    }
}

impl State {
    fn add(&mut self, fault: Fault) {
        let end = |duration| self.clock.monotonic().checked_add(duration);
        self.active.push(ActiveFault {
            random: Random::new(self.seed, self.added),
            until: fault.duration.and_then(end),
            fault,
            struck: 0,
            passed: 0,
        });
        self.added += 1;
    }

    /// Removes the faults that have no further effect.
    fn remove_spent(&mut self) {
        let now = self.clock.monotonic();
        self.active.retain(|active| !active.is_spent(now));
    }

    /// Restarts the random numbers of all faults, present and future.
    fn seed(&mut self, seed: u64) {
        self.seed = seed;
        self.random = Random::new(seed, u64::MAX);
        self.added = 0;
        for active in &mut self.active {
            active.random = Random::new(seed, self.added);
            (active.struck, active.passed) = (0, 0);
            self.added += 1;
        }
    }
}

impl ActiveFault {
    /// Returns the effect on the next request to this target; `None` when the fault does not match
    /// it.
    fn next(&mut self, target: &Target) -> Option<Effect> {
        if !self.fault.concerns(target) {
            return None;
        }
        if self.passed < self.fault.after {
            self.passed += 1;
            return None;
        }
        if self.random.next() >= self.fault.probability {
            return None;
        }
        let effects = &self.fault.effects;
        let step = self.struck.checked_rem(effects.len() as u64)?;
        self.struck += 1;
        effects.get(usize::try_from(step).ok()?).cloned()
    }

    fn is_spent(&self, now: Duration) -> bool {
        let times = self.fault.times;
        times.is_some_and(|times| self.struck >= u64::from(times))
            || self.until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ContainerName;
    use crate::protocol::OperationKind::{self, Batch, Metadata, Query, Read};

    fn faults(list: impl IntoIterator<Item = Fault>) -> Faults {
        let faults = Faults::new(Clock::machine());
        faults.apply(Latency::NONE, None, list.into_iter().collect());
        faults
    }

    fn next(faults: &Faults, kind: OperationKind) -> Injection {
        faults.next(&kind.into())
    }

    /// Shows which of 200 reads a fault with probability 0.3 affects.
    fn pattern(faults: &Faults) -> String {
        let shown = |_| next(faults, Read).effect.map_or('.', |_| 'x');
        (0..200).map(shown).collect()
    }

    #[test]
    fn a_seed_repeats_a_run_and_another_seed_does_not() {
        let often = || Fault::with_probability(Effect::DropRequest, 0.3);
        let first = faults([often()]);
        let run = pattern(&first);
        let struck = run.matches('x').count();
        assert!((40..80).contains(&struck), "{struck} of 200: {run}");
        assert_eq!(pattern(&faults([often()])), run);
        first.apply(Latency::NONE, Some(1), Vec::new());
        assert_ne!(pattern(&first), run);
        first.apply(Latency::NONE, Some(0), Vec::new());
        assert_eq!(pattern(&first), run);
    }

    #[test]
    fn a_request_of_another_kind_does_not_shift_the_random_numbers() {
        let on_reads = || Fault::with_probability(Effect::DropRequest, 0.3).on(Read);
        let run = pattern(&faults([on_reads()]));
        let disturbed = faults([on_reads()]);
        let struck: String = (0..200)
            .map(|_| {
                assert_eq!(next(&disturbed, Query), Injection::default());
                next(&disturbed, Read).effect.map_or('.', |_| 'x')
            })
            .collect();
        assert_eq!(struck, run);
    }

    #[test]
    fn a_script_runs_in_order_and_is_then_removed() {
        let refused = |status| Effect::StatusAfterEffect { status };
        let script = [refused(408), Effect::Pass, refused(503)];
        let faults = faults([Fault::script(script.clone()).on(Batch).after(1)]);
        assert_eq!(
            next(&faults, Batch).effect,
            None,
            "passed because of `after`"
        );
        for step in script {
            assert_eq!(next(&faults, Read).effect, None);
            assert_eq!(next(&faults, Batch).effect, Some(step));
        }
        assert_eq!(next(&faults, Batch).effect, None);
        assert!(faults.state().active.is_empty());
    }

    #[test]
    fn delays_add_up_and_combine_with_another_effect() {
        let late = |ms| Fault::always(Effect::Delay(Duration::from_millis(ms).into()));
        let faults = faults([late(2), late(3).on(Read), Fault::once(Effect::DropAnswer)]);
        let injection = next(&faults, Read);
        assert_eq!(injection.delay, Duration::from_millis(5));
        assert_eq!(injection.effect, Some(Effect::DropAnswer));
        assert_eq!(next(&faults, Query).delay, Duration::from_millis(2));
        assert_eq!(next(&faults, Metadata), Injection::default());
    }

    #[test]
    fn a_fault_of_a_partition_affects_requests_that_reach_it() {
        let reading = |container: &str, partitions: &[&str]| Target {
            container: Some(ContainerName::new("db", container)),
            partitions: partitions.iter().map(|id| (*id).to_owned()).collect(),
            ..Read.into()
        };
        let sick = Fault::always(Effect::Silence).in_container("db", "c");
        let faults = faults([sick.on_partition("1").on_partition("2")]);
        assert_eq!(faults.target_detail(), TargetDetail::Partitions);
        for (target, is_affected) in [
            (reading("c", &["1"]), true),
            (reading("c", &["0", "2"]), true),
            (reading("c", &["0"]), false),
            (reading("c", &[]), false),
            (reading("d", &["1"]), false),
            (Read.into(), false),
        ] {
            let effect = faults.next(&target).effect;
            assert_eq!(effect.is_some(), is_affected, "{target:?}");
        }
    }

    #[test]
    fn a_fault_with_a_duration_is_removed_after_it() {
        let faults = faults([
            Fault::always(Effect::DropAnswer).lasting(Duration::ZERO),
            Fault::always(Effect::DropRequest).lasting(Duration::MAX),
        ]);
        assert_eq!(next(&faults, Read).effect, Some(Effect::DropRequest));
        assert_eq!(faults.all().faults.len(), 1);
    }

    #[test]
    fn a_fault_of_listings_affects_no_other_request() {
        let faults = faults([Fault::stale_ranges()]);
        assert_eq!(next(&faults, Metadata).effect, None);
        let listing = Target {
            lists_ranges: true,
            ..Metadata.into()
        };
        assert_eq!(faults.next(&listing).effect, Some(Effect::StaleRanges));
    }
}
