//! The reconciler: delivers intents whose first delivery failed or was never started, releases
//! unused locks, and reports busy workers.

use std::time::Duration;

use cdb_coordination::outbox::reconcile;
use cdb_coordination::retry::{Jitter, RetryPolicy};
use tokio::time::Instant;

use crate::queue::Services;
use crate::queue::activities::Activities;
use crate::queue::instances::Instances;
use crate::queue::release::release_unused;
use crate::stored::spill;
use crate::timing::{HOUSEKEEPING, UNUSED_PRELOCK};

/// Runs until the provider stops.
pub(crate) async fn run(services: Services, policy: RetryPolicy) {
    let stop = services.store.tasks.closing();
    let interval = services.delivery.reconciler_interval;
    let jitter = Jitter::random();
    let mut next_round = Instant::now() + interval;
    let mut last_sweep = Instant::now();
    loop {
        let tick = next_round.min(Instant::now() + HOUSEKEEPING);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(tick) => {}
        }
        services.instances().local().tick();
        services.activities().sweep();
        services.activities().warn_of_busy_workers();
        // In the background, because a partition that does not answer must not delay intents.
        services.spawn(|services| async move {
            release_unused::<Instances>(&services, UNUSED_PRELOCK).await;
        });
        services.spawn(|services| async move {
            release_unused::<Activities>(&services, UNUSED_PRELOCK).await;
        });
        if Instant::now() >= last_sweep + services.store.orphan_age / 2 {
            last_sweep = Instant::now();
            let stop = stop.clone();
            services.spawn(|services| async move {
                // A sweep that waits for throughput does not delay the shutdown.
                let _swept = stop
                    .run_until_cancelled(spill::sweep(&services.store))
                    .await;
            });
        }
        if Instant::now() >= next_round {
            let more = reconcile(&services, &policy, &jitter).await;
            next_round = Instant::now() + if more { Duration::ZERO } else { interval };
        }
    }
}
