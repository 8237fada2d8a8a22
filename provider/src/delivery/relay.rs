//! Implements the relay of the outbox: delivers intents, postpones refused ones, writes dead letters.
//!
//! A refused delivery moves the intent's time to its next attempt. A dead letter gets the time
//! [`NEVER`]: it stays, with the reason, until an operator redelivers or discards it.

use std::time::Duration;

use async_trait::async_trait;
use cdb_client::{ErrorKind, measure_charge};
use cdb_coordination::outbox::OutboxTransport;
use cdb_coordination::retry::DeliveryError;
use cdb_model::{Patch, Timestamp};

use super::deadline::in_time;
use super::deliver::deliver;
use super::find;
use crate::error::Error;
use crate::queue::Services;
use crate::queue::intents::Intent;
use crate::stored::documents::{NEVER, OutboxIntent};

#[async_trait]
impl OutboxTransport for Services {
    type Message = Intent;

    async fn deliver(
        &self,
        intents: &[Intent],
        delivered: &[Intent],
    ) -> Vec<Result<(), DeliveryError>> {
        let (results, charge) = measure_charge(deliver(self, intents, delivered)).await;
        let share = charge
            / f64::from(
                u32::try_from(intents.len() + delivered.len())
                    .unwrap_or(1)
                    .max(1),
            );
        for intent in intents.iter().chain(delivered) {
            self.ledger.note(&intent.document().instance_id, share);
        }
        for (intent, result) in intents.iter().zip(&results) {
            let target = &intent.document().target_instance_id;
            match result {
                Ok(()) => self.delivery.backoff.note_success(target),
                Err(failure) if !failure.counts() => self.delivery.backoff.note_failure(target),
                Err(_) => {}
            }
        }
        results
    }

    async fn find_due(&self, most: usize) -> Result<Vec<Intent>, cdb_client::Error> {
        find::due(self, most).await
    }

    fn attempts(&self, intent: &Intent) -> (u32, u32) {
        let attempts = intent.document().attempt_count;
        (attempts, attempts)
    }

    async fn postpone(&self, intent: &Intent, failure: &DeliveryError, delay: Duration) {
        // A target that is unavailable has a backoff in memory.
        if failure.counts() {
            let found_at = self.store.now() + delay - self.delivery.reconciler_age;
            self.note_failure(intent, failure, found_at).await;
        }
    }

    async fn dead_letter(&self, intent: &Intent, failure: &DeliveryError) {
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
    /// Counts a failed delivery, notes its reason, and moves the intent's time, so that it is due
    /// at `found_at` plus the reconciler's age.
    async fn note_failure(&self, intent: &Intent, failure: &DeliveryError, found_at: Timestamp) {
        let Intent::Found(stored) = intent else {
            return;
        };
        let patch = Patch::new()
            .set(
                OutboxIntent::ATTEMPT_COUNT,
                stored.document.attempt_count + 1,
            )
            .set(OutboxIntent::FAILURE, Some(failure.to_string()))
            .set(
                OutboxIntent::COMMITTED_AT,
                Some(stored.document.commit_time()),
            )
            .set(OutboxIntent::CREATED_AT, found_at);
        match in_time(self.store.container.run(patch.at(stored))).await {
            Err(Error::Request(error))
                if error.is_precondition_failed() || error.is_not_found() => {}
            Err(error) => {
                tracing::debug!(%error, "cannot note a failed delivery; retrying in the next round");
            }
            Ok(_) => {}
        }
    }
}

impl From<&Error> for DeliveryError {
    /// Counts undecodable values as an attempt, because a newer version that is being deployed may
    /// decode them.
    fn from(error: &Error) -> Self {
        match error {
            Error::Request(request) if request.kind() != ErrorKind::Decode => Self::from(request),
            error if error.is_retryable() => Self::unreachable(error.to_string()),
            error => Self::refused(error.to_string()),
        }
    }
}
