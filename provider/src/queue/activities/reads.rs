//! Tells the history reads of workers, which precede an activity, from the reads of clients.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::Event;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::timing::WORKER_READS_WITHIN;

/// The history reads that are expected, by instance.
#[derive(Debug, Default)]
pub(crate) struct WorkerReads {
    expected: Mutex<HashMap<String, Expected>>,
}

#[derive(Debug)]
struct Expected {
    count: usize,
    /// The time of the last fetch.
    since: Instant,
    /// The history, if it was read before the activity was handed out.
    history: Option<Arc<Vec<Event>>>,
}

/// A read of a worker, with the history if it was read before.
#[derive(Debug)]
pub(crate) struct WorkerRead(pub(crate) Option<Arc<Vec<Event>>>);

impl WorkerReads {
    /// Expects a read, because a worker has fetched an activity of this instance.
    pub(crate) fn note_fetch(&self, instance_id: &str, history: Option<Vec<Event>>) {
        let mut expected = self.expected.lock();
        let entry = expected
            .entry(instance_id.to_owned())
            .or_insert_with(|| Expected {
                count: 0,
                since: Instant::now(),
                history: None,
            });
        entry.count += 1;
        entry.since = Instant::now();
        entry.history = history.map(Arc::new).or(entry.history.take());
    }

    /// Returns the read if it belongs to a worker, once per fetched activity.
    pub(crate) fn take(&self, instance_id: &str) -> Option<WorkerRead> {
        let mut expected = self.expected.lock();
        let entry = expected.get_mut(instance_id)?;
        let in_time = entry.since.elapsed() < WORKER_READS_WITHIN;
        let history = entry.history.clone();
        entry.count = if in_time { entry.count - 1 } else { 0 };
        if entry.count == 0 {
            expected.remove(instance_id);
        }
        in_time.then_some(WorkerRead(history))
    }

    /// Forgets the reads that did not come.
    pub(crate) fn sweep(&self) {
        let in_time = |expected: &Expected| expected.since.elapsed() < WORKER_READS_WITHIN;
        self.expected.lock().retain(|_, expected| in_time(expected));
    }
}
