//! The partitions that may have messages to receive. One task of this process receives in a
//! partition at a time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cdb_model::PartitionKey;
use tokio::sync::Semaphore;

/// The partitions with a running task, and whether the task has to look again.
#[derive(Debug)]
pub(crate) struct Hints {
    running: Mutex<BTreeMap<PartitionKey, bool>>,
    pub(super) permits: Semaphore,
}

impl Hints {
    pub(crate) fn new(concurrency: usize) -> Self {
        Self {
            running: Mutex::default(),
            permits: Semaphore::new(concurrency.max(1)),
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<PartitionKey, bool>> {
        // The map is valid between any two statements, so a panic elsewhere does not spoil it.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many partitions receive or wait for it.
    pub(crate) fn count(&self) -> usize {
        self.running().len()
    }

    /// Notes a hint. Returns `true` if no task runs for the partition.
    pub(super) fn note(&self, partition: &PartitionKey) -> bool {
        let mut running = self.running();
        if let Some(again) = running.get_mut(partition) {
            *again = true;
            return false;
        }
        running.insert(partition.clone(), false);
        true
    }

    /// Returns `true` if the task has to look again. Otherwise the task of the partition has ended.
    pub(super) fn again(&self, partition: &PartitionKey, wanted: bool) -> bool {
        let mut running = self.running();
        let hinted = running
            .get_mut(partition)
            .is_some_and(|again| std::mem::replace(again, false));
        let again = hinted || wanted;
        if !again {
            running.remove(partition);
        }
        again
    }
}
