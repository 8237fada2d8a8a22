//! The reconciler: has intents delivered whose first delivery failed or never took place, and looks after what else was
//! left lying.

use std::time::Duration;

use cdb_coordination::{Jitter, RetryPolicy, reconcile};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::poll::idle_probe;
use crate::services::Services;
use crate::{activities, spill, turn};

/// How often what was left lying is looked after; sends nothing when there is none.
const HOUSEKEEPING: Duration = Duration::from_millis(500);

/// Runs until the provider is gone.
pub(crate) async fn run(
    services: Services,
    interval: Duration,
    policy: RetryPolicy,
    stop: CancellationToken,
) {
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
        turn::give_back_unwanted(&services).await;
        activities::give_back_unwanted(&services).await;
        if Instant::now() >= last_sweep + services.store.orphan_age / 2 {
            last_sweep = Instant::now();
            spill::sweep(&services.store).await;
        }
        if Instant::now() >= next_round {
            // Idle queues ask whether anything is due, undelivered messages included.
            let idle = matches!(idle_probe::is_idle(&services, interval).await, Ok(true));
            let more = !idle && reconcile(&services, &policy, &jitter).await;
            next_round = Instant::now() + if more { Duration::ZERO } else { interval };
        }
    }
}
