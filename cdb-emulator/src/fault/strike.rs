//! Which fault strikes a request: a decision that depends on the seed and on the requests before, and on nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::{Effect, Fault, FaultPlan, Latency};
use crate::admin::FaultsState;
use crate::observe::OperationKind;

/// All faults of a server.
#[derive(Debug)]
pub(crate) struct Faults {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    seed: u64,
    /// The delay of every request, metadata too.
    latency: Latency,
    random: Random,
    active: Vec<ActiveFault>,
    /// How many faults there ever were since the seed was set.
    added: u64,
}

/// A fault and what it did so far.
#[derive(Debug)]
struct ActiveFault {
    fault: Fault,
    /// How many requests it struck.
    struck: u64,
    passed: u32,
    random: Random,
}

/// A fault and what it did so far, for those who ask.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FaultState {
    #[serde(flatten)]
    fault: Fault,
    struck: u64,
}

/// What happens to a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Strike {
    pub(crate) delay: Duration,
    pub(crate) effect: Option<Effect>,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        let faults = Self {
            state: Mutex::new(State {
                seed: 0,
                latency: Latency::NONE,
                random: Random::new(0, u64::MAX),
                active: Vec::new(),
                added: 0,
            }),
        };
        faults.carry_out(plan);
        faults
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.state().add(fault);
    }

    pub(crate) fn clear(&self) {
        self.state().active.clear();
    }

    /// Starts all draws anew: those of the faults that are there, and of those to come.
    pub(crate) fn seed(&self, seed: u64) {
        self.state().seed(seed);
    }

    pub(crate) fn set_latency(&self, latency: Latency) {
        self.state().latency = latency;
    }

    /// Makes all changes at once, as far as requests can see.
    pub(crate) fn carry_out(&self, plan: FaultPlan) {
        let mut state = self.state();
        state.latency = plan.latency.unwrap_or(state.latency);
        if let Some(seed) = plan.seed {
            state.seed(seed);
        }
        for fault in plan.faults {
            state.add(fault);
        }
    }

    pub(crate) fn all(&self) -> FaultsState {
        let state = self.state();
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
        // The list is valid between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to an operation of this kind; counts it. Delays add up, of everything else the first wins.
    pub(crate) fn strike(&self, kind: OperationKind) -> Strike {
        let mut state = self.state();
        let State {
            latency, random, ..
        } = &mut *state;
        let mut strike = Strike {
            delay: latency.sample(random),
            effect: None,
        };
        for active in &mut state.active {
            match active.next(kind) {
                None => {}
                Some(Effect::Delay(latency)) => {
                    strike.delay += latency.sample(&mut active.random);
                }
                effect => {
                    strike.effect = effect;
                    break;
                }
            }
        }
        state.active.retain(|active| !active.is_spent());
        strike
    }
}

impl State {
    fn add(&mut self, fault: Fault) {
        self.active.push(ActiveFault {
            random: Random::new(self.seed, self.added),
            fault,
            struck: 0,
            passed: 0,
        });
        self.added += 1;
    }

    fn seed(&mut self, seed: u64) {
        self.seed = seed;
        self.random = Random::new(seed, u64::MAX);
        self.added = 0;
        for active in std::mem::take(&mut self.active) {
            self.add(active.fault);
        }
    }
}

impl ActiveFault {
    /// The effect on the next operation of this kind, if it is struck.
    fn next(&mut self, kind: OperationKind) -> Option<Effect> {
        if !self.fault.concerns(kind) {
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

    fn is_spent(&self) -> bool {
        self.fault
            .times
            .is_some_and(|times| self.struck >= u64::from(times))
    }
}

/// A sequence of numbers that is the same in every run (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The sequence of one fault: the others, which strike between its draws, must not shift it.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self {
            state: mix(seed) ^ mix(stream.wrapping_mul(GOLDEN)),
        }
    }

    /// From 0 up to, and without, 1.
    pub(super) fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_add(GOLDEN);
        let high = u32::try_from(mix(self.state) >> 32).unwrap_or_default();
        f64::from(high) / 4_294_967_296.0
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use OperationKind::{Batch, Metadata, Query, Read};

    fn faults(list: impl IntoIterator<Item = Fault>) -> Faults {
        Faults::new(FaultPlan {
            faults: list.into_iter().collect(),
            ..FaultPlan::default()
        })
    }

    /// Which of many reads a fault of three in ten strikes.
    fn pattern(faults: &Faults) -> String {
        let struck = |_| faults.strike(Read).effect.map_or('.', |_| 'x');
        (0..200).map(struck).collect()
    }

    #[test]
    fn a_seed_repeats_a_run_and_another_one_is_another_run() {
        let often = || Fault::with_probability(Effect::DropRequest, 0.3);
        let first = faults([often()]);
        let run = pattern(&first);
        let struck = run.matches('x').count();
        assert!((40..80).contains(&struck), "{struck} of 200: {run}");
        assert_eq!(pattern(&faults([often()])), run);
        first.seed(1);
        assert_ne!(pattern(&first), run);
        first.seed(0);
        assert_eq!(pattern(&first), run);
    }

    #[test]
    fn a_request_of_another_kind_shifts_nothing() {
        let on_reads = || Fault::with_probability(Effect::DropRequest, 0.3).on(Read);
        let run = pattern(&faults([on_reads()]));
        let disturbed = faults([on_reads()]);
        let struck: String = (0..200)
            .map(|_| {
                assert_eq!(disturbed.strike(Query), Strike::default());
                disturbed.strike(Read).effect.map_or('.', |_| 'x')
            })
            .collect();
        assert_eq!(struck, run);
    }

    #[test]
    fn a_script_is_played_in_order_and_then_gone() {
        let refused = |status| Effect::StatusAfterEffect { status };
        let script = [refused(408), Effect::Pass, refused(503)];
        let faults = faults([Fault::script(script.clone()).on(Batch).after(1)]);
        assert_eq!(faults.strike(Batch).effect, None, "let through by `after`");
        for step in script {
            assert_eq!(faults.strike(Read).effect, None);
            assert_eq!(faults.strike(Batch).effect, Some(step));
        }
        assert_eq!(faults.strike(Batch).effect, None);
        assert!(faults.state().active.is_empty());
    }

    #[test]
    fn delays_add_up_and_leave_room_for_another_effect() {
        let late = |ms| Fault::always(Effect::Delay(Duration::from_millis(ms).into()));
        let faults = faults([late(2), late(3).on(Read), Fault::once(Effect::DropAnswer)]);
        let strike = faults.strike(Read);
        assert_eq!(strike.delay, Duration::from_millis(5));
        assert_eq!(strike.effect, Some(Effect::DropAnswer));
        assert_eq!(faults.strike(Query).delay, Duration::from_millis(2));
        assert_eq!(faults.strike(Metadata), Strike::default());
    }
}
