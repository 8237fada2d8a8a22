//! Intents that were given up: for people to look at, to have tried again, to throw away.

use cdb_model::{Batch, Patch, Query, Stored};
use duroxide::providers::ProviderError;

use crate::documents::{Durable, NEVER, OutboxIntent};
use crate::error::InOperation;
use crate::provider::CosmosDBProvider;
use crate::spill::ConsumedChunks;

impl CosmosDBProvider {
    /// Messages between instances that were refused so often that they were given up, at most `most` of them. Each says
    /// why in `failure`. They stay until [`deliver_again`](Self::deliver_again) or [`discard`](Self::discard), or until their
    /// instance is deleted.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn undeliverable(
        &self,
        most: u32,
    ) -> Result<Vec<Stored<OutboxIntent>>, ProviderError> {
        let query = Query::<OutboxIntent>::across_partitions()
            .filter(OutboxIntent::CREATED_AT.ge(NEVER))
            .order_by(OutboxIntent::BY_CREATED.asc())
            .top(most);
        let found = self.container().query(query).row_by_row().all().await;
        let found = found.in_operation("undeliverable")?;
        // Those that cannot be read are told of when they are set aside.
        Ok(self.services.store.corrupt_documents.readable(found))
    }

    /// Has messages that were given up tried again, as if they were new. Whatever of them had arrived does not arrive
    /// again, for a day after it was received.
    ///
    /// # Errors
    /// When somebody else has done it, or the service refuses.
    pub async fn deliver_again(
        &self,
        given_up: &Stored<OutboxIntent>,
    ) -> Result<(), ProviderError> {
        let patch = Patch::new()
            .set(OutboxIntent::ATTEMPT_COUNT, 0)
            .set(OutboxIntent::CREATED_AT, self.container().now());
        match self.container().patch_stored(given_up, &patch).await {
            // Only this patch or another operator's takes it from the end of time.
            Err(error) if error.is_ambiguous() && !self.is_given_up(given_up).await => Ok(()),
            written => written.map(drop).in_operation("deliver_again"),
        }
    }

    /// Throws messages away that were given up. Whoever waits for them waits on: a child that is never started, a parent
    /// that never hears of its child's end; cancel or delete those instances. What a message refers to in its receiver's
    /// partition goes with the receiver, since a part of the messages may have arrived.
    ///
    /// # Errors
    /// When somebody has changed or discarded them since they were read, or the service refuses.
    pub async fn discard(&self, given_up: &Stored<OutboxIntent>) -> Result<(), ProviderError> {
        let intent = &given_up.document;
        let mut batch = Batch::<Durable>::new(&*intent.instance_id);
        let consumed_chunks = ConsumedChunks::of_chunked(
            &intent.instance_id,
            self.services.store.now(),
            &intent.more,
        );
        let built = batch
            .delete_stored(given_up)
            .and_then(|_| match &consumed_chunks {
                Some(consumed_chunks) => consumed_chunks.add_to(&mut batch),
                None => Ok(()),
            });
        built.in_operation("discard")?;
        match self.container().execute(&batch).await {
            Err(error) if error.is_ambiguous() && self.is_gone(given_up).await => {}
            executed => {
                executed.in_operation("discard")?;
            }
        }
        if let Some(consumed_chunks) = consumed_chunks {
            consumed_chunks.remove(&self.services);
        }
        Ok(())
    }

    /// Whether an intent is still given up, as far as can be told.
    async fn is_given_up(&self, intent: &Stored<OutboxIntent>) -> bool {
        let latest = self.container().latest_committed();
        match latest.read_stored(intent).await {
            Ok(Some(stored)) => stored.document.created_at >= NEVER,
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether an intent is certain to be there no more.
    async fn is_gone(&self, intent: &Stored<OutboxIntent>) -> bool {
        let latest = self.container().latest_committed();
        matches!(latest.read_stored(intent).await, Ok(None))
    }
}
