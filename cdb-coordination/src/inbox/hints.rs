//! Partitions with something to receive: each is looked after by one task of this process at a time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cdb_model::PartitionKey;
use tokio::sync::Semaphore;

/// Which partitions are being looked after, and whether to look again afterwards.
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

    /// Notes a hint. Returns whether nobody looks after the partition.
    pub(super) fn note(&self, partition: &PartitionKey) -> bool {
        let mut running = self.running();
        if let Some(again) = running.get_mut(partition) {
            *again = true;
            return false;
        }
        running.insert(partition.clone(), false);
        true
    }

    /// Whether to look again; if not, the partition is nobody's from now on.
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
