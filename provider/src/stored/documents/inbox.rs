//! The batches of activities that were delivered to an instance. Messages leave traces instead (`trace.rs`).

use cdb_model::Document;
use serde::{Deserialize, Serialize};

use super::trace::REMEMBERED_SECONDS;

/// Records that a batch of an intent's activities was delivered. The batch itself creates the
/// record, so a second delivery conflicts with it, even after the activities have ended and their
/// items were deleted. A message needs no record: consuming it leaves a trace.
///
/// ```
/// use cdb_provider::documents::InboxRecord;
/// use cdb_provider::model::Document as _;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// let record = InboxRecord {
///     instance_id: "order-7".to_owned(),
///     idempotency_key: "turn-3".to_owned(),
///     part: 0,
///     ttl: Some(24 * 60 * 60),
/// };
/// store.container().run(record.create()).await?;
/// let again = store.container().run(record.create()).await;
/// assert!(again.unwrap_err().is_conflict());
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "inbox", id = "{instance_id}:inbox:{idempotency_key}:{part}")]
pub struct InboxRecord {
    /// The receiving instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The key of the intent.
    pub idempotency_key: String,
    /// The position of the batch's first item within the intent.
    pub part: u64,
    /// The seconds until the service deletes the record. A container without a time to live, as
    /// `duroxide-cdb` creates it, keeps the record until its instance is deleted.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl InboxRecord {
    /// Creates the record of a batch that begins with item number `part`.
    pub(crate) fn new(instance_id: &str, idempotency_key: &str, part: u64) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            idempotency_key: idempotency_key.to_owned(),
            part,
            ttl: Some(REMEMBERED_SECONDS),
        }
    }
}
