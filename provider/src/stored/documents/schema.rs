//! The schema version of a container's documents, and the gate that keeps other runtimes out.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::chunk::Text;
use super::queue_item::{OrchestratorItem, WorkerItem};

/// The partition of documents that concern the whole container. Not an instance.
pub const SCHEMA_PARTITION: &str = "cdb:schema";

/// The schema version that this crate writes, and the newest that it reads.
///
/// | version | written by | what is new |
/// |---|---|---|
/// | – | `duroxide-cdb` up to 0.1.10, and this provider before it had versions | |
/// | 1 | 0.1.0 | this document and the gate |
/// | 2 | 0.1.0, with a [`payload_codec`](Schema::payload_codec) only | encoded payloads |
/// | 3 | 0.1.0, with pauses or [limits](super::Limits) only | pauses of instances and limits of activities, which every runtime keeps to |
/// | 4 | 0.1.0, with a limit on what runs or starts only | the permits of [limited keys](super::LimitedKey) |
pub const SCHEMA_VERSION: u32 = 4;

/// The version of a container without a payload codec.
const VERSION_WITHOUT_CODEC: u32 = 1;

const VERSION_WITH_CODEC: u32 = 2;

const VERSION_WITH_LIMITS: u32 = 3;

const VERSION_WITH_PERMITS: u32 = 4;

/// The due time of the gate's documents. Polls of this crate query later times only.
const GATE: Timestamp = Timestamp::from_millis(0);

/// The earliest due time of a queue item.
pub const FIRST_DUE: Timestamp = Timestamp::from_millis(1);

/// The most dispatchers of `duroxide-cdb` that share the slots of one runtime, when all of them
/// meet the gate.
const GATES: u8 = 16;

/// An attempt count that overflows the signed 32 bits of `duroxide-cdb`.
const OVERFLOW: u32 = 3_000_000_000;

/// The schema version of a container's documents. Written when a container is opened for the first
/// time.
///
/// ```
/// use cdb_provider::documents::{SCHEMA_PARTITION, SCHEMA_VERSION, SchemaKey};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// // Checks the schema version before a runtime is updated.
/// let schema = store.container().read(&SchemaKey::new(SCHEMA_PARTITION)).await?.expect("it was opened once");
/// assert!(schema.document.written_by.starts_with("cdb-provider "));
/// assert!(schema.document.version <= SCHEMA_VERSION); // `new` refuses a newer version
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "schema", id = "{instance_id}:schema")]
pub struct Schema {
    /// Always [`SCHEMA_PARTITION`].
    #[document(partition_key)]
    pub instance_id: String,
    /// The oldest schema version that a runtime must support.
    pub version: u32,
    /// The name of the codec that encodes the payloads; `None` when they are stored as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_codec: Option<String>,
    /// The crate that wrote the container, with its version.
    pub written_by: String,
    /// The time of the write.
    pub created_at: Timestamp,
}

impl Schema {
    /// Creates the schema of this version, without a payload codec.
    pub fn current(now: Timestamp) -> Self {
        Self {
            instance_id: SCHEMA_PARTITION.to_owned(),
            version: VERSION_WITHOUT_CODEC,
            payload_codec: None,
            written_by: concat!("cdb-provider ", env!("CARGO_PKG_VERSION")).to_owned(),
            created_at: now,
        }
    }

    /// Notes the name of the codec that encodes the payloads. Runtimes that cannot decode them
    /// refuse the container from then on.
    #[must_use]
    pub fn with_payload_codec(self, name: &str) -> Self {
        Self {
            version: self.version.max(VERSION_WITH_CODEC),
            payload_codec: Some(name.to_owned()),
            ..self
        }
    }

    /// Notes that the container has limits. Runtimes that do not know limits refuse the container
    /// from then on, and the others read the limits when they open it.
    #[must_use]
    pub fn with_limits(self) -> Self {
        Self {
            version: self.version.max(VERSION_WITH_LIMITS),
            ..self
        }
    }

    /// Notes that the container limits what runs or starts. Runtimes that do not know the permits of this version
    /// refuse the container from then on.
    #[must_use]
    pub fn with_permits(self) -> Self {
        Self {
            version: self.version.max(VERSION_WITH_PERMITS),
            ..self
        }
    }

    /// Returns whether the container has, or had, limits on what runs or starts.
    pub fn has_permits(&self) -> bool {
        self.version >= VERSION_WITH_PERMITS
    }

    /// Returns whether the container has, or had, limits.
    pub fn has_limits(&self) -> bool {
        self.version >= VERSION_WITH_LIMITS
    }
}

/// Returns queue items that `duroxide-cdb` finds in every poll and cannot decode, which ends the
/// poll. Without them it would take an instance whose history this crate has written for corrupt,
/// and fail it.
pub(crate) fn gate() -> (Vec<OrchestratorItem>, Vec<WorkerItem>) {
    const REASON: &str =
        "this container is used by cdb-provider; duroxide-cdb must not use it any more";
    let message = |slot: u8| OrchestratorItem {
        instance_id: SCHEMA_PARTITION.to_owned(),
        cause: format!("gate-{slot}"),
        work_item: Text::Inline(REASON.to_owned()),
        dispatch_slot: slot,
        visible_at: GATE,
        enqueued_at: GATE,
        attempt_count: OVERFLOW,
        ..OrchestratorItem::default()
    };
    let activity = |slot: u8| WorkerItem {
        instance_id: SCHEMA_PARTITION.to_owned(),
        activity_id: u64::from(slot),
        work_item: Text::Inline(REASON.to_owned()),
        dispatch_slot: slot,
        visible_at: GATE,
        enqueued_at: GATE,
        attempt_count: OVERFLOW,
        ..WorkerItem::default()
    };
    let slots = || 0..GATES;
    (
        slots().map(message).collect(),
        slots().map(activity).collect(),
    )
}
