//! The key-value store of an instance: the values of ended executions, and the changes of the
//! running one.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::chunk::Text;

/// A value that survives the executions of its instance.
///
/// ```
/// use cdb_provider::documents::{KeyValue, KeyValueKey};
/// # use cdb_provider::model::Document as _;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let now = store.container().now();
/// # let set = |key: &str, value: &str| KeyValue { instance_id: "order-7".to_owned(), key: key.to_owned(), value: value.to_owned(), execution_id: 1, last_updated_at_ms: now };
/// # store.container().run(set("carrier", "rail").create()).await?;
/// // A value left by ended executions costs a point read.
/// let carrier = store.container().read(&KeyValueKey::new("order-7", "carrier")).await?;
/// assert_eq!(carrier.map(|stored| stored.document.value).as_deref(), Some("rail"));
/// # Ok(()) }
/// ```
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
    /// The execution that wrote the value.
    pub execution_id: u64,
    /// The time at which the orchestration set the value.
    #[serde(default)]
    pub last_updated_at_ms: Timestamp,
}

impl KeyValue {
    /// The key of the search attributes. Their stored form is in the instance document too, and can
    /// change.
    pub const SEARCH_ATTRIBUTES: &'static str = "cdb:search-attributes";
}

/// A change by the running execution, merged into the store when that execution ends.
///
/// ```
/// use cdb_provider::documents::{KeyValue, KeyValueDelta, KeyValueDeltaKey};
/// # use cdb_provider::model::Document as _;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let now = store.container().now();
/// # let set = |key: &str, value: &str| KeyValue { instance_id: "order-7".to_owned(), key: key.to_owned(), value: value.to_owned(), execution_id: 1, last_updated_at_ms: now };
/// # let cleared = KeyValueDelta { instance_id: "order-7".to_owned(), key: "carrier".to_owned(), value: None, execution_id: 2, last_updated_at_ms: now };
/// # store.container().run(set("carrier", "rail").create()).await?;
/// # store.container().run(cleared.create()).await?;
/// // The running execution has cleared the value; others see that when it ends.
/// let change = store.container().read(&KeyValueDeltaKey::new("order-7", "carrier")).await?;
/// assert_eq!(change.map(|stored| stored.document.value), Some(None));
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "kv_delta", id = "{instance_id}:kv_delta:{key}")]
pub struct KeyValueDelta {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The key.
    pub key: String,
    /// The new value; `None` when the key was cleared.
    #[document(unindexed)]
    #[serde(default)]
    pub value: Option<String>,
    /// The execution that wrote the change.
    pub execution_id: u64,
    /// The time at which the orchestration set the value.
    #[serde(default)]
    pub last_updated_at_ms: Timestamp,
}

/// The whole key-value store of an instance in one document. A turn that changes more keys than a
/// batch holds replaces the documents of single keys by it.
///
/// ```
/// use cdb_provider::documents::{KeyValuePack, KeyValuePackKey, PackedKeyValues};
/// # use cdb_provider::documents::{KeyValue, Text};
/// # use cdb_provider::model::Document as _;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let now = store.container().now();
/// # let set = |key: &str, value: &str| KeyValue { instance_id: "order-7".to_owned(), key: key.to_owned(), value: value.to_owned(), execution_id: 1, last_updated_at_ms: now };
/// # let value = serde_json::to_string(&PackedKeyValues { store: vec![set("carrier", "rail"), set("weight", "12")], delta: Vec::new() })?;
/// # store.container().run(KeyValuePack { instance_id: "order-7".to_owned(), value: Text::Inline(value) }.create()).await?;
/// let pack = store.container().read(&KeyValuePackKey::new("order-7")).await?.expect("it was packed");
/// let held: PackedKeyValues = serde_json::from_str(pack.document.value.header())?;
/// let keys: Vec<&str> = held.store.iter().map(|value| &*value.key).collect();
/// assert_eq!(keys, ["carrier", "weight"]);
/// # Ok(()) }
/// ```
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

/// The content of a [`KeyValuePack`].
///
/// ```
/// use cdb_provider::documents::PackedKeyValues;
///
/// let held: PackedKeyValues = serde_json::from_str(
///     r#"{
///         "store": [{"instanceId": "order-7", "key": "carrier", "value": "rail", "executionId": 1}],
///         "delta": [{"instanceId": "order-7", "key": "carrier", "value": "road", "executionId": 2}]
///     }"#,
/// )?;
/// // The running execution sees `road`; others see `rail` until it ends.
/// let changed = held.delta.iter().find(|change| change.key == "carrier");
/// assert_eq!(changed.and_then(|change| change.value.as_deref()), Some("road"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct PackedKeyValues {
    /// The values left by ended executions.
    pub store: Vec<KeyValue>,
    /// The changes of the running execution.
    pub delta: Vec<KeyValueDelta>,
}
