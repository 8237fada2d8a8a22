//! Partitions with something to receive: each is looked after by one task of this process at a time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_model::{Container, MemberOf, PartitionKey};
use tokio::sync::Semaphore;

use crate::mail::Mail;
use crate::mailbox::Inner;

/// How soon to look again for messages that are left to this process and wait for earlier ones.
const SOON: Duration = Duration::from_millis(50);

/// Which partitions are being looked after, and whether to look again afterwards.
#[derive(Debug)]
pub(crate) struct Hints {
    running: Mutex<BTreeMap<PartitionKey, bool>>,
    permits: Semaphore,
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
    fn note(&self, partition: &PartitionKey) -> bool {
        let mut running = self.running();
        if let Some(again) = running.get_mut(partition) {
            *again = true;
            return false;
        }
        running.insert(partition.clone(), false);
        true
    }

    /// Whether to look again; if not, the partition is nobody's from now on.
    fn again(&self, partition: &PartitionKey, wanted: bool) -> bool {
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

impl<C: Container> Inner<C>
where
    Mail<C>: MemberOf<C>,
{
    /// A partition has something to receive, perhaps.
    pub(crate) fn hint(&self, partition: PartitionKey) {
        if !self.receives() || !self.hints.note(&partition) {
            return;
        }
        self.spawn(|inner| async move {
            loop {
                let waits = match inner.hints.permits.acquire().await {
                    Ok(_permit) => inner.receive_in(&partition).await,
                    Err(_) => return,
                };
                let waits = waits.unwrap_or_else(|error| {
                    tracing::warn!(%partition, %error, "messages cannot be received");
                    false
                });
                if !inner.hints.again(&partition, waits) {
                    return;
                }
                if waits {
                    tokio::time::sleep(SOON).await;
                }
            }
        });
    }
}
