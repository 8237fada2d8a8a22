//! Ended instances go after a while, if the configuration says so.
//!
//! Every runtime looks after it, at times of its own: two that meet delete the same partitions, and the later one finds
//! them gone. Between slices it rests as long as a slice took, so that orchestrations have at least half of the rate.

use std::hash::BuildHasher as _;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin::purge::Purge;
use crate::services::Services;

/// The longest and the shortest time between two looks.
const RARELY: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_secs(1);

/// Runs until the provider is gone.
pub(crate) async fn run(services: Services, keep: Duration, stop: CancellationToken) {
    let interval = (keep / 10).clamp(OFTEN, RARELY);
    // Runtimes that start together do not look together.
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
                    "ended instances were purged"
                );
                begun.elapsed()
            }
            Ok(None) => interval,
            Err(error) => {
                tracing::warn!(%error, "ended instances were not purged, and will be tried again");
                interval
            }
        };
    }
}
