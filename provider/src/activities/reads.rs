//! Which reads of a history are a worker's before it runs an activity, rather than a client's who wants news.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A worker reads the history right after it has fetched an activity, or not at all.
const READS_WITHIN: Duration = Duration::from_secs(1);

/// How many workers have fetched an activity of an instance and not yet read its history, and when last.
#[derive(Debug, Default)]
pub(super) struct WorkerReads {
    expected: Mutex<HashMap<String, (usize, Instant)>>,
}

impl WorkerReads {
    fn expected(&self) -> MutexGuard<'_, HashMap<String, (usize, Instant)>> {
        // Valid between any two statements, so a panic elsewhere does not spoil it.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker has fetched an activity of this instance.
    pub(super) fn expect(&self, instance_id: &str) {
        let mut expected = self.expected();
        let (count, since) = expected
            .entry(instance_id.to_owned())
            .or_insert((0, Instant::now()));
        *count += 1;
        *since = Instant::now();
    }

    /// Whether a read that comes now is a worker's. True once per fetched activity.
    pub(super) fn take(&self, instance_id: &str) -> bool {
        let mut expected = self.expected();
        let Some((count, since)) = expected.get_mut(instance_id) else {
            return false;
        };
        let in_time = since.elapsed() < READS_WITHIN;
        *count = if in_time { *count - 1 } else { 0 };
        if *count == 0 {
            expected.remove(instance_id);
        }
        in_time
    }

    /// Forgets the reads that did not come.
    pub(super) fn sweep(&self) {
        let in_time = |since: &Instant| since.elapsed() < READS_WITHIN;
        self.expected().retain(|_, (_, since)| in_time(since));
    }
}
