//! Dead letters of the outbox, for operators.

use cdb_model::Stored;
use duroxide::providers::ProviderError;

use crate::error::InOperation as _;
use crate::operate::dead_letters;
use crate::provider::CosmosDBProvider;
use crate::stored::documents::OutboxIntent;

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
        let found = dead_letters::list(&self.services.store, most);
        found.await.in_operation("undeliverable")
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
        let redelivered = dead_letters::redeliver(&self.services.store, dead_letter);
        redelivered.await.in_operation("deliver_again")
    }

    /// Discards a dead letter. Instances that wait for its messages continue to wait, such as a
    /// child that is never started, or the parent of an ended child; cancel or delete those
    /// instances. Chunks in the partition of a target are deleted with the target, because some
    /// messages may have arrived.
    ///
    /// # Errors
    /// Fails when the dead letter has changed since it was read, or the service refuses.
    pub async fn discard(&self, dead_letter: &Stored<OutboxIntent>) -> Result<(), ProviderError> {
        let discarded = dead_letters::discard(&self.services.store, dead_letter);
        discarded.await.in_operation("discard")
    }
}
