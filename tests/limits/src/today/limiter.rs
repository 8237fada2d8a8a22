//! Transcribes `local_queue/limiter.rs` (lines 104 to 205, 266 to 380) and `limited.rs` (lines 171 to 190): the
//! allowance of a key, the bucket of its rate, and the items that wait for it by arrival.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::machine::{ItemId, Rule, Time};

use super::share::Demand;

/// Lines 64 to 73. `rate` is the starts in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowance {
    pub(super) running: Option<u32>,
    pub(super) rate: Option<f64>,
    pub(super) until: Time,
}

/// Lines 104 to 119.
#[derive(Debug)]
pub(super) struct Limited {
    pub(super) rule: Rule,
    pub(super) allowance: Option<Allowance>,
    pub(super) running: u32,
    starts: (f64, Time),
    /// By arrival.
    pub(super) parked: BTreeMap<u64, ItemId>,
}

fn rate(rule: &Rule) -> Option<f64> {
    rule.interval.map(|interval| 1.0 / interval.as_secs_f64())
}

impl Limited {
    pub(super) fn new(rule: Rule, now: Time) -> Self {
        Self {
            rule,
            allowance: None,
            running: 0,
            starts: (rate(&rule).map_or(0.0, |rate| rate.min(1.0)), now),
            parked: BTreeMap::new(),
        }
    }

    /// Lines 281 to 291.
    pub(super) fn set_rule(&mut self, rule: Rule, now: Time) {
        if self.rule != rule {
            self.rule = rule;
            self.allowance = None;
            self.starts = (rate(&rule).map_or(0.0, |rate| rate.min(1.0)), now);
        }
    }

    pub(super) fn demand(&self) -> Demand {
        Demand {
            rule: self.rule,
            running: self.running,
            waiting: u32::try_from(self.parked.len()).unwrap_or(u32::MAX),
        }
    }

    /// Lines 149 to 155.
    fn refill(&mut self, rate: f64, now: Time) -> f64 {
        let (left, at) = self.starts;
        let since = now.saturating_sub(at).as_secs_f64();
        let left = (left + since * rate).min(rate.max(1.0));
        self.starts = (left, now.max(at));
        left
    }

    /// Lines 158 to 179.
    pub(super) fn room(&mut self, now: Time) -> usize {
        if self.rule.running == Some(0) {
            return 0;
        }
        let Some(allowance) = self.allowance.filter(|allowance| allowance.until > now) else {
            return 0;
        };
        let running = allowance.running.map_or(usize::MAX, |most| {
            usize::try_from(most.saturating_sub(self.running)).unwrap_or(usize::MAX)
        });
        let starts = match allowance.rate {
            None => usize::MAX,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates, and never negative"
            )]
            Some(rate) => self.refill(rate, now).max(0.0) as usize,
        };
        running.min(starts)
    }

    /// Lines 182 to 191.
    pub(super) fn refilled_at(&self, now: Time) -> Option<Time> {
        let allowance = self.allowance.filter(|allowance| allowance.until > now)?;
        let is_full = allowance.running.is_some_and(|most| self.running >= most);
        let rate = allowance.rate.filter(|rate| *rate > 0.0 && !is_full)?;
        let missing = (1.0 - self.starts.0) / rate;
        let wait = Duration::try_from_secs_f64(missing.max(0.0)).ok()?;
        let at = self.starts.1.checked_add(wait)? + Duration::from_micros(1);
        (at < allowance.until).then_some(at)
    }

    /// Returns when the bucket was counted last.
    pub(super) fn counted_at(&self) -> Time {
        self.starts.1
    }

    /// Lines 301 to 306.
    pub(super) fn start(&mut self) {
        if self.rule.interval.is_some() {
            self.starts.0 -= 1.0;
        }
        self.running += 1;
    }

    pub(super) fn end(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Lines 425 to 434.
    pub(super) fn lower(&mut self, to: Allowance) {
        if let Some(allowance) = &mut self.allowance {
            let running = allowance.running.zip(to.running);
            allowance.running = running.map(|(own, new)| own.min(new));
            let rate = allowance.rate.zip(to.rate);
            allowance.rate = rate.map(|(own, new)| own.min(new));
        }
    }
}
