//! Notices that all workers of this process are busy: then no due activity is fetched.
//!
//! A free worker is in a fetch, so the number of workers need not be known: while no fetch begins
//! and none waits, the running activities occupy all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::known::Activities;
use crate::queue::local_queue::Shared;
use crate::timing::{ALL_BUSY, FREE_AGAIN};

/// The most activities that the warning names.
const MAX_NAMED: usize = 10;

/// What is known of the workers of this process.
#[derive(Debug, Default)]
pub(crate) struct BusyWorkers {
    /// The number of fetches that have begun.
    fetches: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The fetches that had begun at the last look.
    fetches: u64,
    busy_since: Option<Instant>,
    free_since: Option<Instant>,
    warned: bool,
}

impl BusyWorkers {
    pub(super) fn note_fetch(&self) {
        self.fetches.fetch_add(1, Ordering::Relaxed);
    }

    /// Warns when all workers have been busy for a while. `waiting` is the number of workers that
    /// wait for an activity. Sends no request.
    pub(super) fn report(&self, waiting: usize, running: &[Shared<Activities>]) {
        if let Some(busy_for) = self.look(waiting, running.len(), Instant::now()) {
            warn(running, busy_for);
        }
    }

    /// Looks at the workers. Returns for how long all have been busy, once until some have been free
    /// for a while: a worker that takes the next long activity must not repeat the warning.
    fn look(&self, waiting: usize, running: usize, now: Instant) -> Option<Duration> {
        let fetches = self.fetches.load(Ordering::Relaxed);
        let mut state = self.state.lock();
        let has_fetched = std::mem::replace(&mut state.fetches, fetches) != fetches;
        if waiting > 0 || running == 0 {
            state.busy_since = None;
            let free_since = *state.free_since.get_or_insert(now);
            state.warned &= now < free_since + FREE_AGAIN;
            return None;
        }
        state.free_since = None;
        if has_fetched {
            state.busy_since = None;
        }
        let busy_for = now - *state.busy_since.get_or_insert(now);
        if busy_for < ALL_BUSY || std::mem::replace(&mut state.warned, true) {
            return None;
        }
        Some(busy_for)
    }
}

/// Warns that the workers that run these activities have been busy for a while.
fn warn(running: &[Shared<Activities>], busy_for: Duration) {
    let named = running.iter().take(MAX_NAMED).filter_map(|lock| {
        // A lock that is being renewed or acknowledged is not worth a wait.
        let lock = lock.try_lock().ok()?;
        let item = &lock.item.document;
        Some(format!("{} of {}", item.described(), item.instance_id))
    });
    let activities = named.collect::<Vec<_>>().join(", ");
    tracing::warn!(
        workers = running.len(),
        seconds = busy_for.as_secs(),
        activities,
        "all workers of this process are busy, so due activities wait; for more workers raise `RuntimeOptions::worker_concurrency`, \
         or start more runtimes"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_workers_are_reported_once_until_some_were_free_for_a_while() {
        let (workers, start) = (BusyWorkers::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let look = |waiting, running, seconds| workers.look(waiting, running, at(seconds));
        assert_eq!(look(1, 1, 0), None);
        assert_eq!(look(0, 2, 10), None);
        assert_eq!(look(0, 2, 39), None);
        assert_eq!(look(0, 2, 40), Some(ALL_BUSY));
        assert_eq!(look(0, 2, 90), None);
        // One worker is free for a moment, then all are busy again.
        assert_eq!(look(1, 1, 100), None);
        assert_eq!(look(0, 2, 101), None);
        assert_eq!(look(0, 2, 200), None);
        // One worker is free for longer.
        assert_eq!(look(1, 1, 210), None);
        assert_eq!(look(1, 1, 221), None);
        assert_eq!(look(0, 2, 230), None);
        assert_eq!(look(0, 2, 261), Some(Duration::from_secs(31)));
    }

    #[test]
    fn workers_that_fetch_are_not_busy() {
        let (workers, start) = (BusyWorkers::default(), Instant::now());
        for second in (0..300).step_by(10) {
            workers.note_fetch();
            let now = start + Duration::from_secs(second);
            assert_eq!(workers.look(0, 2, now), None, "{second}");
        }
        assert_eq!(workers.look(0, 0, start + Duration::from_secs(400)), None);
    }
}
