//! The key-value store of an instance: what ended executions left, and what the running one has changed since.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::Text;

/// A value that survives the executions of its instance.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "kv", id = "{instance_id}:kv:{key}")]
pub struct KeyValue {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The key.
    pub key: String,
    /// The value.
    #[document(unindexed)]
    pub value: String,
    /// The execution that wrote it.
    pub execution_id: u64,
    /// When the orchestration set it.
    #[serde(default)]
    pub last_updated_at_ms: Timestamp,
}

/// A change by the running execution, merged into the store when that execution ends.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "kv_delta", id = "{instance_id}:kv_delta:{key}")]
pub struct KeyValueDelta {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The key.
    pub key: String,
    /// The new value; nothing when the key was cleared.
    #[document(unindexed)]
    #[serde(default)]
    pub value: Option<String>,
    /// The execution that wrote it.
    pub execution_id: u64,
    /// When the orchestration set it.
    #[serde(default)]
    pub last_updated_at_ms: Timestamp,
}

/// The whole key-value store of an instance in one document. From the turn on that changed more of it than a batch
/// takes, it is all that counts, and the documents of single keys are gone.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "kv_pack", id = "{instance_id}:kv_pack")]
pub struct KeyValuePack {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// [`PackedKeyValues`] as JSON text.
    #[document(unindexed)]
    pub value: Text,
}

/// What a [`KeyValuePack`] holds.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct PackedKeyValues {
    /// What ended executions left.
    pub store: Vec<KeyValue>,
    /// What the running execution has changed since.
    pub delta: Vec<KeyValueDelta>,
}
