//! The times of faults, and what they can delay: the judges of waiting items do not count them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::virtual_time::elapsed;

/// What a fault can delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    Everything,
    /// Work in a physical partition of a container.
    Partition(&'static str, String),
    /// Work that this node was doing.
    Node(u32),
    /// Turns that load their instance.
    Loads,
}

/// The faults of a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excuses(Arc<Mutex<Vec<Window>>>);

#[derive(Clone, Debug)]
struct Window {
    scope: Scope,
    /// Whether half of the time counts, because the work goes on slowly.
    is_slow: bool,
    from: Duration,
    until: Duration,
    what: String,
}

impl Excuses {
    /// Notes a fault that begins now.
    pub(crate) fn note(&self, scope: Scope, lasting: Duration, what: impl Into<String>) {
        let is_slow = scope == Scope::Loads;
        self.push(scope, is_slow, lasting, what.into());
    }

    /// Notes a fault that begins now, during which work goes on slowly: half of its time counts.
    pub(crate) fn note_slow(&self, scope: Scope, lasting: Duration, what: impl Into<String>) {
        self.push(scope, true, lasting, what.into());
    }

    fn push(&self, scope: Scope, is_slow: bool, lasting: Duration, what: String) {
        let from = elapsed();
        self.lock().push(Window {
            scope,
            is_slow,
            from,
            until: from + lasting,
            what,
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how much of `span` faults took that concern an item.
    pub(crate) fn time(
        &self,
        span: &Range<Duration>,
        concerns: impl Fn(&Scope) -> bool,
    ) -> Duration {
        let windows = self.lock();
        let mut full = Vec::new();
        let mut half = Vec::new();
        for window in windows.iter().filter(|window| concerns(&window.scope)) {
            let part = (window.from.max(span.start), window.until.min(span.end));
            if window.is_slow {
                half.push(part);
            } else {
                full.push(part);
            }
        }
        covered(full) + covered(half) / 2
    }

    /// Returns the faults of a time, as text.
    pub(crate) fn of(&self, from: Duration, until: Duration) -> Vec<String> {
        let windows = self.lock();
        let overlapping = windows
            .iter()
            .filter(|window| window.from <= until && window.until >= from);
        overlapping.map(Window::describe).collect()
    }
}

impl Window {
    fn describe(&self) -> String {
        let (from, until) = (self.from.as_secs(), self.until.as_secs());
        format!("{} ({:?}, {from} s to {until} s)", self.what, self.scope)
    }
}

/// Returns the time that at least one of these parts covers.
fn covered(mut parts: Vec<(Duration, Duration)>) -> Duration {
    parts.sort_unstable();
    let (mut sum, mut reached) = (Duration::ZERO, Duration::ZERO);
    for (from, until) in parts {
        sum += until.saturating_sub(from.max(reached));
        reached = reached.max(until);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_faults_count_once() {
        let seconds = |(from, until)| (Duration::from_secs(from), Duration::from_secs(until));
        let parts = [(5, 9), (1, 3), (2, 6), (20, 10)].map(seconds);
        assert_eq!(covered(parts.to_vec()), Duration::from_secs(8));
    }
}
