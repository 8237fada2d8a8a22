//! What a refused write conflicts with: the id of its document, or a unique key.
//!
//! The service answers both with 409. Sources differ on the rest: azure-cosmos-java
//! `docs/StatusCodes.md` has 409/0 for "another document with the same identity … exists or a unique key
//! constraint would be violated", azure_data_cosmos_driver `cosmos_status.rs` 409/3301
//! (`UniqueIndexConflict`), and azure-cosmos-dotnet-v2#523 409 with the text "Unique index constraint
//! violation.". Data Factory's page of errors has the same text for documents with the same id, which
//! violate both. So the id decides: a document that exists proves that its id is taken.

use cdb_model::value::ItemId;
use cdb_model::{Container, PartitionKey};

use crate::container::handle::ContainerClient;
use crate::error::{ConflictCause, Error, ErrorKind};

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
        if known.is_none() && !error.names_unique_key() {
            return error;
        }
        if !is_create {
            return known.named_in(error);
        }
        let read = self.latest_committed();
        let read = self.in_time(partition, read.read_accepted(partition, id));
        match Box::pin(read).await {
            Ok(Some(_)) => error.with_conflict_cause(ConflictCause::Id),
            Ok(None) => known.named_in(error),
            Err(unread) => error.into_read_failure(unread),
        }
    }
}
