//! The key-value store of an instance: what ended executions left, and what the running one has changed since.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

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
