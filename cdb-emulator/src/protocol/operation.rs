//! The kinds of operations, as faults and the log of requests distinguish them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of an operation. In JSON it is the name in lower case.
///
/// ```
/// use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = Emulator::start().await?;
/// // A tenth of batches and bulks are executed, but their responses are lost.
/// let lost = Fault::with_probability(Effect::DropAnswer, 0.1);
/// emulator.inject(lost.on(OperationKind::Batch).on(OperationKind::Bulk));
/// // … the code under test
/// assert_eq!(emulator.requests().counts.get(&OperationKind::Batch), None); // no batch was sent
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OperationKind {
    /// Read of one document by its id.
    Read,
    /// Creation of one document.
    Create,
    /// Replacement of one document.
    Replace,
    /// Upsert of one document.
    Upsert,
    /// Patch of one document.
    Patch,
    /// Deletion of one document.
    Delete,
    /// Transactional batch.
    Batch,
    /// Bulk: independent operations in one request.
    Bulk,
    /// A page of a query.
    Query,
    /// A page of the change feed or of a list.
    Feed,
    /// Operations on the account, databases, containers and physical partitions, and plans of
    /// queries.
    Metadata,
}

impl OperationKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 11] = [
        Self::Read,
        Self::Create,
        Self::Replace,
        Self::Upsert,
        Self::Patch,
        Self::Delete,
        Self::Batch,
        Self::Bulk,
        Self::Query,
        Self::Feed,
        Self::Metadata,
    ];
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Upsert => "upsert",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Batch => "batch",
            Self::Bulk => "bulk",
            Self::Query => "query",
            Self::Feed => "feed",
            Self::Metadata => "metadata",
        })
    }
}
