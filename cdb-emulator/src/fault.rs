//! Faults on demand: for tests of what comes after the happy path.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::observe::OperationKind;

/// A fault: which operations it strikes, how often, and what it does to them.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Strikes only these kinds; all data operations when empty. Metadata is struck only when named.
    pub kinds: Vec<OperationKind>,
    /// What happens.
    pub effect: Effect,
    /// Strikes this many times and is then gone; for ever when `None`.
    pub times: Option<u32>,
    /// Strikes with this probability, 0 to 1.
    pub probability: f64,
    /// Lets this many matching requests pass first.
    pub after: u32,
}

impl Fault {
    /// A fault that strikes the next data operation, once.
    pub fn once(effect: Effect) -> Self {
        Self {
            kinds: Vec::new(),
            effect,
            times: Some(1),
            probability: 1.0,
            after: 0,
        }
    }

    /// A fault that strikes data operations with a probability, for ever.
    pub fn with_probability(effect: Effect, probability: f64) -> Self {
        Self {
            times: None,
            probability,
            ..Self::once(effect)
        }
    }

    /// The same fault for one kind of operation.
    #[must_use]
    pub fn on(mut self, kind: OperationKind) -> Self {
        self.kinds.push(kind);
        self
    }
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Answers with this status and takes no effect.
    Status {
        /// For example 429, 503, 408, 449.
        status: u16,
        /// The sub-status.
        substatus: u32,
        /// Milliseconds to stay away.
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
    /// Answers late.
    Delay(Duration),
}

/// All faults of a server.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<Fault>,
    random: u64,
}

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    pub(crate) fn clear(&self) {
        self.state().faults.clear();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // The list is valid between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The effect that strikes this operation, if any; counts it.
    pub(crate) fn strike(&self, kind: OperationKind) -> Option<Effect> {
        let mut state = self.state();
        for at in 0..state.faults.len() {
            let random = state.next_random();
            let fault = &mut state.faults[at];
            let matches = if fault.kinds.is_empty() {
                kind != OperationKind::Metadata
            } else {
                fault.kinds.contains(&kind)
            };
            if !matches || random >= fault.probability {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            let effect = fault.effect.clone();
            if let Some(times) = fault.times.as_mut() {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    state.faults.remove(at);
                }
            }
            return Some(effect);
        }
        None
    }
}

impl State {
    /// The same sequence in every run, from 0 up to 1 (SplitMix64).
    fn next_random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        f64::from(u32::try_from(z >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }
}
