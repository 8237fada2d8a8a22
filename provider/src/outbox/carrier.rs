//! Intents as parcels of the dispatcher: where old ones are found, when they are tried again, how they are given up.
//!
//! An attempt that failed moves the intent's time on, so that it is found again when its wait is over, and one that was
//! given up to the end of time: it stays, with the reason, until somebody has it tried again.

use std::time::Duration;

use async_trait::async_trait;
use cdb_coordination::{Relay, Undelivered};
use cdb_model::{Patch, Query, Timestamp, Unreadable};

use super::deliver::deliver;
use super::intent::Intent;
use crate::documents::{NEVER, OutboxIntent, Salvage};
use crate::error::Result;
use crate::services::Services;

#[async_trait]
impl Relay for Services {
    type Message = Intent;

    async fn deliver(
        &self,
        parcels: &[Intent],
        delivered: &[Intent],
    ) -> Vec<Result<(), Undelivered>> {
        let results = deliver(self, parcels, delivered).await;
        let convert = |result: Result<()>| result.map_err(|error| Undelivered::from(&error));
        results.into_iter().map(convert).collect()
    }

    async fn find_due(&self, most: usize) -> Result<Vec<Intent>, cdb_client::Error> {
        let query = Query::<OutboxIntent>::across_partitions()
            .filter(OutboxIntent::CREATED_AT.le(self.container.now() - self.reconciler_age))
            .order_by(OutboxIntent::BY_CREATED.asc())
            .top(u32::try_from(most).unwrap_or(u32::MAX));
        let mut intents = Vec::new();
        for row in self.container.query(query).row_by_row().all().await? {
            match row {
                Ok(stored) => intents.push(Intent::Found(stored)),
                Err(found) => self.bury_unread(&found).await,
            }
        }
        Ok(intents)
    }

    fn attempts(&self, parcel: &Intent) -> (u32, u32) {
        let attempts = parcel.document().attempt_count;
        (attempts, attempts)
    }

    async fn postpone(&self, parcel: &Intent, failure: &Undelivered, delay: Duration) {
        // One that the service could not take, for reasons of its own, is found again in the next round.
        if failure.counts() {
            let found_at = self.container.now() + delay - self.reconciler_age;
            self.note_failure(parcel, failure, found_at).await;
        }
    }

    async fn dead_letter(&self, parcel: &Intent, failure: &Undelivered) {
        self.note_failure(parcel, failure, NEVER).await;
    }

    fn describe(&self, parcel: &Intent) -> String {
        let intent = parcel.document();
        format!(
            "intent {} of {} for {}",
            intent.idempotency_key, intent.instance_id, intent.target_instance_id
        )
    }
}

impl Services {
    /// Sets an intent aside that cannot be read: among those that were given up, with the reason, out of the way of the
    /// others.
    async fn bury_unread(&self, found: &Unreadable) {
        self.damage.tell(found);
        let Some(stored) = OutboxIntent::salvage_stored(found) else {
            return;
        };
        let patch = Patch::new()
            .set(OutboxIntent::FAILURE, Some(found.to_string()))
            .set(OutboxIntent::CREATED_AT, NEVER);
        if let Err(error) = self.container.patch_stored(&stored, &patch).await {
            tracing::debug!(%error, "an intent was not set aside; the next round will");
        }
    }

    /// Counts an attempt that failed, says why, and has the intent found again at `found_at` and the reconciler's age.
    async fn note_failure(&self, parcel: &Intent, failure: &Undelivered, found_at: Timestamp) {
        let Intent::Found(stored) = parcel else {
            return;
        };
        let patch = Patch::new()
            .set(
                OutboxIntent::ATTEMPT_COUNT,
                stored.document.attempt_count + 1,
            )
            .set(OutboxIntent::FAILURE, Some(failure.to_string()))
            .set(OutboxIntent::CREATED_AT, found_at);
        match self.container.patch_stored(stored, &patch).await {
            Err(error) if !error.is_precondition_failed() && !error.is_not_found() => {
                tracing::debug!(%error, "a failed delivery was not noted; the next round will");
            }
            _ => {}
        }
    }
}
