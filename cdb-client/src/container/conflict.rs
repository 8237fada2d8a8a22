//! What a refused write conflicts with: the id of its document, or a unique key.
//!
//! The service answers both with 409. Sources differ on the rest: azure-cosmos-java
//! `docs/StatusCodes.md` has 409/0 for "another document with the same identity … exists or a unique key
//! constraint would be violated", azure_data_cosmos_driver `cosmos_status.rs` 409/3301
//! (`UniqueIndexConflict`), and azure-cosmos-dotnet-v2#523 409 with the text "Unique index constraint
//! violation.". Data Factory's page of errors has the same text for documents with the same id, which
//! violate both. So the id decides: a document that exists proves that its id is taken.

use std::sync::{PoisonError, RwLock};

use cdb_model::{Container, ItemId, PartitionKey, UniqueKey};

use crate::container::handle::ContainerClient;
use crate::error::{Error, ErrorKind, Taken};

/// What a client knows of the unique keys of a container.
#[derive(Debug, Default)]
pub(crate) struct UniqueKeys(RwLock<Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    keys: Vec<UniqueKey>,
    /// Whether the live container has these keys and no others.
    is_checked: bool,
}

impl UniqueKeys {
    /// Notes the keys of a model that may lack keys of the container.
    pub(crate) fn declare(&self, keys: impl FnOnce() -> Vec<UniqueKey>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.is_checked && known.keys.is_empty() {
            known.keys = keys();
        }
    }

    /// Notes all keys of the live container.
    pub(crate) fn check(&self, keys: Vec<UniqueKey>) {
        let is_checked = true;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known { keys, is_checked };
    }

    /// Forgets the keys of a deleted or re-created container.
    pub(crate) fn forget(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known::default();
    }

    fn known(&self) -> Known {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}

impl Known {
    /// Names the unique keys in the error of a conflict: the service does not say which one it is
    /// about.
    fn named_in(&self, error: Error) -> Error {
        let error = error.taken(Taken::UniqueKey);
        if self.keys.is_empty() {
            return error;
        }
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|key| format!("({})", key.paths.join(", ")))
            .collect();
        error.with_context(&format!(
            "another document of the partition has the same values at the paths of a unique key, one of {}",
            keys.join(", ")
        ))
    }
}

impl<C: Container> ContainerClient<C> {
    /// Adds to the error of a write what it conflicts with. Reads the id of a document that was to be
    /// created, unless the container is known to have no unique keys. If that fails, the error is
    /// that of the read: the write had no effect, and the caller may repeat it.
    pub(super) async fn with_conflict(
        &self,
        error: Error,
        partition: &PartitionKey,
        id: &ItemId,
        is_create: bool,
    ) -> Error {
        if error.kind() != ErrorKind::Conflict {
            return error;
        }
        let known = self.context.unique_keys.known();
        if known.is_checked && known.keys.is_empty() && !error.names_unique_key() {
            return error;
        }
        if !is_create {
            return known.named_in(error);
        }
        let read = self.latest_committed();
        let read = self.in_time(partition, read.read_accepted(partition, id));
        match Box::pin(read).await {
            Ok(Some(_)) => error.taken(Taken::Id),
            Ok(None) => known.named_in(error),
            Err(unread) => error.undecided(unread),
        }
    }
}
