//! The reconciler: finds intents whose first delivery failed or never took place, and delivers them.

use std::sync::Weak;
use std::time::Duration;

use cdb_model::{Query, Stored};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::deliver::deliver;
use super::remove;
use crate::documents::OutboxIntent;
use crate::provider::Inner;
use crate::{spill, turn, work};

/// Most intents per round; what is left comes in the next one, without waiting.
const ROUND: u32 = 100;

/// How often what was left lying is looked after; sends nothing when there is none.
const HOUSEKEEPING: Duration = Duration::from_millis(500);

/// Runs until the provider is gone.
pub(crate) async fn run(inner: Weak<Inner>, interval: Duration, stop: CancellationToken) {
    let mut next_round = Instant::now() + interval;
    let mut last_sweep = Instant::now();
    loop {
        let tick = next_round.min(Instant::now() + HOUSEKEEPING);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(tick) => {}
        }
        let Some(inner) = inner.upgrade() else { return };
        inner.turns.sweep(inner.container.now());
        inner.work.sweep(inner.container.now());
        turn::give_back_unwanted(&inner).await;
        work::give_back_unwanted(&inner).await;
        if Instant::now() >= last_sweep + inner.spill_age / 2 {
            last_sweep = Instant::now();
            spill::sweep(&inner).await;
        }
        if Instant::now() >= next_round {
            // Idle queues ask whether anything is due, undelivered messages included.
            let quiet = matches!(inner.watch.is_quiet(&inner, interval).await, Ok(true));
            let more = !quiet && round(&inner).await;
            next_round = Instant::now() + if more { Duration::ZERO } else { interval };
        }
    }
}

/// Delivers one round of old intents. Returns whether more are waiting that can be delivered.
async fn round(inner: &Inner) -> bool {
    let query = Query::<OutboxIntent>::across_partitions()
        .filter(OutboxIntent::CREATED_AT.le(inner.container.now() - inner.reconciler_age))
        .order_by(OutboxIntent::BY_CREATED.asc())
        .top(ROUND);
    let found: Vec<Stored<OutboxIntent>> = match inner.container.query(query).all().await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "the outbox cannot be searched");
            return false;
        }
    };
    let intents: Vec<OutboxIntent> = found.iter().map(|stored| stored.document.clone()).collect();
    let results = deliver(inner, &intents, &[]).await;
    let mut delivered = 0;
    for (stored, result) in found.iter().zip(results) {
        let intent = &stored.document;
        match result {
            Ok(()) => {
                delivered += 1;
                remove::stored(inner, stored).await;
            }
            Err(error) => tracing::warn!(
                instance = %intent.instance_id,
                target_instance = %intent.target_instance_id,
                %error,
                "messages still cannot be delivered"
            ),
        }
    }
    delivered > 0 && u32::try_from(found.len()) == Ok(ROUND)
}
