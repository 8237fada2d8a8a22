//! What tools read: decoded payloads, recordings, searches, and the purge.

use std::time::Duration;

use cdb_model::Filter;
use duroxide::providers::{ProviderError, WorkItem};

use crate::error::InOperation as _;
use crate::operate::InstanceSearch;
use crate::operate::admin::Purge;
use crate::operate::replay::{Recording, read};
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

    /// Reads the current execution of an instance, to be replayed by a new build:
    /// [`replay`](crate::replay). `None` for an instance that does not exist or has not started.
    ///
    /// The key-value store is the one at the start of the execution while it runs. The end of an
    /// execution merges its changes, so ended executions that read keys may differ from their
    /// recording.
    ///
    /// # Errors
    /// When the store cannot be read, or the history cannot be decoded. Tools too need the payload
    /// codec here.
    pub async fn recording(&self, instance: &str) -> Result<Option<Recording>, ProviderError> {
        let recording = read::recording(&self.services.store, instance);
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
}
