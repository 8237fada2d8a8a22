//! What tools read and delete, and the end of a provider.

use std::time::Duration;

use cdb_model::query::Filter;
use duroxide::providers::{ProviderError, WorkItem};

use crate::error::InOperation as _;
use crate::operate::InstanceSearch;
use crate::operate::admin::Purge;
use crate::operate::observe::Observe;
use crate::operate::replay::{self, Recording};
use crate::operate::shutdown::shut_down;
use crate::provider::CosmosDBProvider;
use crate::stored::documents::Instance;

impl CosmosDBProvider {
    /// Decodes a payload that was read from a document. Returns a payload of another codec or of a
    /// missing key as it is stored.
    pub fn decode(&self, payload: String) -> String {
        self.payloads().readable(payload)
    }

    /// Decodes the payloads of a message that was read from a document, like
    /// [`decode`](Self::decode).
    pub fn decode_message(&self, message: WorkItem) -> WorkItem {
        self.payloads().readable_message(message)
    }

    /// Answers what waits, since when and for what: [`observe`](crate::observe). Sends nothing until a method of the answer is
    /// called.
    pub fn observe(&self) -> Observe<'_> {
        Observe::new(&self.services.store)
    }

    /// Reads the current execution of an instance, to be replayed by a new build:
    /// [`replay`]. `None` for an instance that does not exist or has not started.
    ///
    /// The key-value store is the one at the start of the execution while it runs. The end of an
    /// execution merges its changes, so ended executions that read keys may differ from their
    /// recording.
    ///
    /// # Errors
    /// When the store cannot be read, or the history cannot be decoded. Tools too need the payload
    /// codec here.
    pub async fn recording(&self, instance: &str) -> Result<Option<Recording>, ProviderError> {
        let recording = replay::read(&self.services.store, instance);
        recording.await.in_operation("recording")
    }

    /// Searches instances by [search attributes](trait@crate::SearchAttributes) and the other indexed
    /// properties of [`Instance`], such as [`Instance::STATUS`].
    ///
    /// In a container whose policy lacks `/attributes/*`, a filter scans all instances, and a sort
    /// by an attribute is refused; `cdb policy apply` adds the path.
    pub fn instances_where(&self, filter: Filter<Instance>) -> InstanceSearch<'_> {
        InstanceSearch::new(self.container(), filter)
    }

    /// Deletes instances that ended at least `keep` ago, with their descendants, slice by slice.
    /// Delivers their messages first, and keeps instances whose messages cannot be delivered.
    ///
    /// Does the work of [`retention`](crate::CosmosDBProviderConfig::retention) now, under the
    /// caller's control.
    pub fn purge_ended(&self, keep: Duration) -> Purge {
        let before = self.services.store.now() - keep;
        Purge::new(self.services.clone(), Some(before))
    }

    /// Ends the background work of this provider and all its clones within `grace`: releases locks,
    /// delivers committed messages, leaves the membership. Call it after the runtime has been shut
    /// down:
    ///
    /// ```no_run
    /// # use std::{sync::Arc, time::Duration};
    /// # use cdb_provider::CosmosDBProvider;
    /// # async fn end(runtime: Arc<duroxide::runtime::Runtime>, provider: CosmosDBProvider) {
    /// runtime.shutdown(Some(20_000)).await;
    /// provider.shutdown(Duration::from_secs(5)).await;
    /// # }
    /// ```
    ///
    /// Turns and activities that the runtime broke off are released without counting the attempt,
    /// and other runtimes find them at once. Work that is not finished within `grace` is left to
    /// other runtimes: they find undelivered messages after `reconciler_age_threshold`, and locks
    /// when they expire. The same holds for a process that ends without this call.
    ///
    /// Clients may continue to use the provider; it polls for no more work.
    pub async fn shutdown(&self, grace: Duration) {
        shut_down(&self.services, grace).await;
    }

    /// Leaves the membership, so that other members serve this runtime's slots at once instead of
    /// after the failure timeout. Afterwards this provider polls for no work.
    /// [`shutdown`](Self::shutdown) also leaves. Dropping the last clone leaves in the background,
    /// which needs a running Tokio runtime.
    pub async fn leave(&self) {
        self.services.queues.leave().await;
    }

    /// Deletes the container with everything in it. For tests.
    ///
    /// # Errors
    /// Fails when the service refuses. A missing container is not an error.
    pub async fn cleanup(&self) -> Result<(), ProviderError> {
        self.services.store.tasks.stop();
        self.leave().await;
        match self.services.container().delete_container().await {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted.in_operation("cleanup"),
        }
    }
}
