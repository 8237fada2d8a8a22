//! Tells the history reads of workers, which precede an activity, from the reads of clients.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::timing::WORKER_READS_WITHIN;

/// The number of expected history reads per instance, and the time of the last fetch.
#[derive(Debug, Default)]
pub(crate) struct WorkerReads {
    expected: Mutex<HashMap<String, (usize, Instant)>>,
}

impl WorkerReads {
    /// Expects a read, because a worker has fetched an activity of this instance.
    pub(crate) fn note_fetch(&self, instance_id: &str) {
        let mut expected = self.expected.lock();
        let (count, since) = expected
            .entry(instance_id.to_owned())
            .or_insert((0, Instant::now()));
        *count += 1;
        *since = Instant::now();
    }

    /// Returns whether a read belongs to a worker. Returns `true` once per fetched activity.
    pub(crate) fn take(&self, instance_id: &str) -> bool {
        let mut expected = self.expected.lock();
        let Some((count, since)) = expected.get_mut(instance_id) else {
            return false;
        };
        let in_time = since.elapsed() < WORKER_READS_WITHIN;
        *count = if in_time { *count - 1 } else { 0 };
        if *count == 0 {
            expected.remove(instance_id);
        }
        in_time
    }

    /// Forgets the reads that did not come.
    pub(crate) fn sweep(&self) {
        let in_time = |since: &Instant| since.elapsed() < WORKER_READS_WITHIN;
        self.expected.lock().retain(|_, (_, since)| in_time(since));
    }
}
