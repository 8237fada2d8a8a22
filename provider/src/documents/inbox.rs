//! What has been delivered: the receiving side of the outbox.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

use super::queue_item::REMEMBERED_SECONDS;

/// Says that a batch of an intent's activities was delivered. Created in that batch, so a second delivery conflicts with
/// it, also when the activities have long ended and their items are gone. Messages leave a trace of their own.
///
/// ```
/// use cdb_provider::documents::InboxRecord;
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
/// store.container().create(&record).await?;
/// let again = store.container().create(&record).await;
/// assert!(again.unwrap_err().is_conflict());
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "inbox", id = "{instance_id}:inbox:{idempotency_key}:{part}")]
pub struct InboxRecord {
    /// The instance that received.
    #[document(partition_key)]
    pub instance_id: String,
    /// The intent's key.
    pub idempotency_key: String,
    /// Number of the first item of the batch within the intent.
    pub part: u64,
    /// Seconds until the service deletes the record. On a container that has no time to live, as `duroxide-cdb` makes
    /// them, it stays until its instance is deleted.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl InboxRecord {
    /// The record of a batch that begins with item number `part`.
    pub(crate) fn new(instance_id: &str, idempotency_key: &str, part: u64) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            idempotency_key: idempotency_key.to_owned(),
            part,
            ttl: Some(REMEMBERED_SECONDS),
        }
    }
}
