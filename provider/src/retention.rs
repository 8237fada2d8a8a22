//! Deletes ended instances after the configured time.
//!
//! Every runtime runs this task, at times of its own. If two runtimes delete the same partitions,
//! the later one finds them deleted. The task pauses after each slice for as long as the slice
//! took, so that orchestrations keep at least half of the throughput.

use std::hash::BuildHasher as _;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin::purge::Purge;
use crate::services::Services;

/// The longest and the shortest time between two searches.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until the provider stops.
pub(crate) async fn run(services: Services, keep: Duration, stop: CancellationToken) {
    let interval = (keep / 10).clamp(MIN_INTERVAL, MAX_INTERVAL);
    // Runtimes that start together search at different times.
    let early = services.queues.scatter.hash_one("retention") % 1000;
    let mut pause = interval / 1000 * u32::try_from(early).unwrap_or_default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let begun = Instant::now();
        let before = services.store.now() - keep;
        let mut purge = Purge::new(services.container().clone(), before);
        pause = match purge.next_slice().await {
            Ok(Some(slice)) => {
                tracing::debug!(
                    instances = slice.instances_deleted,
                    "deleted ended instances"
                );
                begun.elapsed()
            }
            Ok(None) => interval,
            Err(error) => {
                tracing::warn!(%error, "cannot delete ended instances; retrying");
                interval
            }
        };
    }
}
