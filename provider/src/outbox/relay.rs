//! Implements the relay of the outbox: finds due intents, postpones failed deliveries, writes dead
//! letters.
//!
//! A failed delivery moves the intent's time to its next attempt. A dead letter gets the time
//! [`NEVER`]: it stays, with the reason, until an operator redelivers or discards it.

use std::time::Duration;

use async_trait::async_trait;
use cdb_coordination::{Relay, Undelivered};
use cdb_model::{Patch, Query, Timestamp, Unreadable};

use super::deliver::deliver;
use super::intent::Intent;
use crate::documents::{NEVER, OutboxIntent, Partial};
use crate::error::Result;
use crate::services::Services;

#[async_trait]
impl Relay for Services {
    type Message = Intent;

    async fn deliver(
        &self,
        intents: &[Intent],
        delivered: &[Intent],
    ) -> Vec<Result<(), Undelivered>> {
        let results = deliver(self, intents, delivered).await;
        let convert = |result: Result<()>| result.map_err(|error| Undelivered::from(&error));
        results.into_iter().map(convert).collect()
    }

    async fn find_due(&self, most: usize) -> Result<Vec<Intent>, cdb_client::Error> {
        let query = Query::<OutboxIntent>::across_partitions()
            .filter(OutboxIntent::CREATED_AT.le(self.store.now() - self.delivery.reconciler_age))
            .order_by(OutboxIntent::BY_CREATED.asc())
            .top(u32::try_from(most).unwrap_or(u32::MAX));
        let mut intents = Vec::new();
        for row in self.store.container.query(query).row_by_row().all().await? {
            match row {
                Ok(stored) => intents.push(Intent::Found(stored)),
                Err(found) => self.dead_letter_unreadable(&found).await,
            }
        }
        Ok(intents)
    }

    fn attempts(&self, intent: &Intent) -> (u32, u32) {
        let attempts = intent.document().attempt_count;
        (attempts, attempts)
    }

    async fn postpone(&self, intent: &Intent, failure: &Undelivered, delay: Duration) {
        // A delivery that failed because the service is unavailable is found again in the next
        // round.
        if failure.counts() {
            let found_at = self.store.now() + delay - self.delivery.reconciler_age;
            self.note_failure(intent, failure, found_at).await;
        }
    }

    async fn dead_letter(&self, intent: &Intent, failure: &Undelivered) {
        self.note_failure(intent, failure, NEVER).await;
    }

    fn describe(&self, intent: &Intent) -> String {
        let intent = intent.document();
        format!(
            "intent {} of {} for {}",
            intent.idempotency_key, intent.instance_id, intent.target_instance_id
        )
    }
}

impl Services {
    /// Turns an undecodable intent into a dead letter with the reason, so that it does not block
    /// others.
    async fn dead_letter_unreadable(&self, found: &Unreadable) {
        self.store.corrupt_documents.report(found);
        let Some(stored) = OutboxIntent::partial_stored(found) else {
            return;
        };
        let patch = Patch::new()
            .set(OutboxIntent::FAILURE, Some(found.to_string()))
            .set(OutboxIntent::CREATED_AT, NEVER);
        if let Err(error) = self.store.container.patch_stored(&stored, &patch).await {
            tracing::debug!(%error, "cannot write a dead letter; retrying in the next round");
        }
    }

    /// Counts a failed delivery, notes its reason, and moves the intent's time, so that it is due
    /// at `found_at` plus the reconciler's age.
    async fn note_failure(&self, intent: &Intent, failure: &Undelivered, found_at: Timestamp) {
        let Intent::Found(stored) = intent else {
            return;
        };
        let patch = Patch::new()
            .set(
                OutboxIntent::ATTEMPT_COUNT,
                stored.document.attempt_count + 1,
            )
            .set(OutboxIntent::FAILURE, Some(failure.to_string()))
            .set(OutboxIntent::CREATED_AT, found_at);
        match self.store.container.patch_stored(stored, &patch).await {
            Err(error) if !error.is_precondition_failed() && !error.is_not_found() => {
                tracing::debug!(%error, "cannot note a failed delivery; retrying in the next round");
            }
            _ => {}
        }
    }
}
