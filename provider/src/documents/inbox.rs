//! What has been delivered: the receiving side of the outbox.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

/// How long a delivery is remembered, in seconds: one day. An intent is removed right after its delivery; a record has
/// to outlive every failure to do so.
const REMEMBERED_SECONDS: u32 = 24 * 60 * 60;

/// Says that a batch of an intent's messages was delivered. Created in that batch, so a second delivery conflicts with
/// it, also when the messages have long been consumed and deleted.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "inbox", id = "{instance_id}:inbox:{idempotency_key}:{part}")]
pub struct InboxRecord {
    /// The instance that received.
    #[document(partition_key)]
    pub instance_id: String,
    /// The intent's key.
    pub idempotency_key: String,
    /// Number of the first message of the batch within the intent.
    pub part: u64,
    /// Seconds until the service deletes the record. On a container that has no time to live, as `duroxide-cdb` makes
    /// them, it stays until its instance is deleted.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl InboxRecord {
    /// The record of a batch that begins with message number `part`.
    pub fn new(instance_id: &str, idempotency_key: &str, part: u64) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            idempotency_key: idempotency_key.to_owned(),
            part,
            ttl: Some(REMEMBERED_SECONDS),
        }
    }
}
