//! The rounds of the tasks that maintain partitions.

use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use crate::memory::inner::Inner;

/// Waits for the next round of a task. Returns `None` when the coordinator was stopped or dropped.
pub(super) async fn next_round(
    inner: &Weak<Inner>,
    stop: &CancellationToken,
) -> Option<Arc<Inner>> {
    let every = inner.upgrade()?.config.upkeep;
    tokio::select! {
        () = stop.cancelled() => None,
        () = tokio::time::sleep(every) => inner.upgrade(),
    }
}
