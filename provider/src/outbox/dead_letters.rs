//! Dead letters of the outbox, for operators: list, redeliver, discard.

use cdb_model::{Batch, Patch, Query, Stored};
use duroxide::providers::ProviderError;

use crate::documents::{Durable, NEVER, OutboxIntent};
use crate::error::InOperation;
use crate::provider::CosmosDBProvider;
use crate::spill::ConsumedChunks;

impl CosmosDBProvider {
    /// Returns up to `most` dead letters: messages between instances whose delivery was refused too
    /// often, or whose commit is so old that a redelivery could repeat them. `failure` holds the
    /// reason. A dead letter stays until
    /// [`deliver_again`](Self::deliver_again) or [`discard`](Self::discard), or until its instance
    /// is deleted.
    ///
    /// # Errors
    /// Fails when the query fails.
    pub async fn undeliverable(
        &self,
        most: u32,
    ) -> Result<Vec<Stored<OutboxIntent>>, ProviderError> {
        let query = Query::<OutboxIntent>::across_partitions()
            .filter(OutboxIntent::CREATED_AT.ge(NEVER))
            .order_by(OutboxIntent::BY_CREATED)
            .limit(most);
        let found = self.container().query(query).row_by_row().all().await;
        let found = found.in_operation("undeliverable")?;
        // An undecodable intent is reported when it becomes a dead letter.
        Ok(self.services.store.corrupt_documents.readable(found))
    }

    /// Redelivers a dead letter as a new message. Messages that have arrived within the last day
    /// are not delivered twice.
    ///
    /// # Errors
    /// Fails when another operator has redelivered or discarded the dead letter, or the service
    /// refuses.
    pub async fn deliver_again(
        &self,
        dead_letter: &Stored<OutboxIntent>,
    ) -> Result<(), ProviderError> {
        let patch = Patch::new()
            .set(OutboxIntent::ATTEMPT_COUNT, 0)
            .set(OutboxIntent::COMMITTED_AT, None)
            .set(OutboxIntent::CREATED_AT, self.container().now());
        // Only this patch, or another operator's, changes the time [`NEVER`].
        let is_redelivered =
            |now: Option<OutboxIntent>| now.is_none_or(|intent| intent.created_at < NEVER);
        match self.container().patch_stored(dead_letter, &patch).await {
            Err(error)
                if error.is_ambiguous() && self.is_now(dead_letter, is_redelivered).await =>
            {
                Ok(())
            }
            written => written.map(drop).in_operation("deliver_again"),
        }
    }

    /// Discards a dead letter. Instances that wait for its messages continue to wait, such as a
    /// child that is never started, or the parent of an ended child; cancel or delete those
    /// instances. Chunks in the partition of a target are deleted with the target, because some
    /// messages may have arrived.
    ///
    /// # Errors
    /// Fails when the dead letter has changed since it was read, or the service refuses.
    pub async fn discard(&self, dead_letter: &Stored<OutboxIntent>) -> Result<(), ProviderError> {
        let intent = &dead_letter.document;
        let mut batch = Batch::<Durable>::new(&*intent.instance_id);
        let consumed_chunks = ConsumedChunks::of_chunked(
            &intent.instance_id,
            self.services.store.now(),
            &intent.more,
        );
        let built = batch
            .delete_stored(dead_letter)
            .and_then(|_| consumed_chunks.add_to(&mut batch));
        built.in_operation("discard")?;
        match self.container().execute(&batch).await {
            Err(error)
                if error.is_ambiguous() && self.is_now(dead_letter, |now| now.is_none()).await => {}
            executed => {
                executed.in_operation("discard")?;
            }
        }
        consumed_chunks.remove(&self.services);
        Ok(())
    }

    /// Reads whether an intent meets a condition now; `None` stands for a deleted one. Returns
    /// `false` when this cannot be read.
    async fn is_now(
        &self,
        intent: &Stored<OutboxIntent>,
        condition: impl FnOnce(Option<OutboxIntent>) -> bool,
    ) -> bool {
        let latest = self.container().latest_committed();
        let found = latest.read_stored(intent).await;
        found.is_ok_and(|found| condition(found.map(|stored| stored.document)))
    }
}
