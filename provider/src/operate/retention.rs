//! Deletes ended instances, and replaced executions, after the configured time.
//!
//! Every runtime runs this task for the instances of its dispatch slots, at times of its own. If
//! two runtimes delete the same partitions, the later one finds them deleted. The task pauses after
//! each slice for as long as the slice took, and its requests are background requests, so that
//! orchestrations keep at least half of the throughput.

use std::hash::BuildHasher as _;
use std::time::Duration;

use tokio::time::Instant;

use crate::operate::admin::Purge;
use crate::operate::admin::prune::prune_slice;
use crate::queue::Services;
use crate::timing::{MAX_RETENTION_INTERVAL, MIN_RETENTION_INTERVAL};

/// Runs until the provider stops.
pub(crate) async fn run(services: Services, keep: Duration) {
    let stop = services.store.tasks.closing();
    let interval = (keep / 10).clamp(MIN_RETENTION_INTERVAL, MAX_RETENTION_INTERVAL);
    // Runtimes that start together search at different times.
    let early = services.queues.scatter.hash_one("retention") % 1000;
    let mut pause = interval / 1000 * u32::try_from(early).unwrap_or_default();
    let mut purge = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let begun = Instant::now();
        let slices = async {
            let is_purged = !purge_slice(&services, keep, &mut purge).await;
            (is_purged, !prune(&services, keep).await)
        };
        // A slice that waits for throughput does not delay the shutdown; another runtime continues.
        let Some((is_purged, is_pruned)) = stop.run_until_cancelled(slices).await else {
            return;
        };
        pause = if is_purged && is_pruned {
            interval
        } else {
            begun.elapsed()
        };
    }
}

/// Deletes a slice of ended instances. Keeps `purge` for the next slice, and returns whether there
/// may be one.
async fn purge_slice(services: &Services, keep: Duration, purge: &mut Option<Purge>) -> bool {
    let before = services.store.now() - keep;
    let current = purge.get_or_insert_with(|| Purge::new(services.clone(), Some(before)));
    current.set_slots(services.queues.shares.slots().await);
    match current.next_slice().await {
        Ok(Some(slice)) => {
            let instances = slice.instances_deleted;
            tracing::debug!(instances, "deleted ended instances");
            return true;
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "cannot delete ended instances; retrying"),
    }
    *purge = None;
    false
}

/// Prunes a slice of replaced executions. Returns whether there may be more.
async fn prune(services: &Services, keep: Duration) -> bool {
    let before = services.store.now() - keep;
    let slots = services.queues.shares.slots().await;
    match prune_slice(services.container(), before, &slots).await {
        Ok(0) => false,
        Ok(executions) => {
            tracing::debug!(executions, "pruned old executions");
            true
        }
        Err(error) => {
            tracing::warn!(%error, "cannot prune old executions; retrying");
            false
        }
    }
}
