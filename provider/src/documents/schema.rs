//! Which form the documents of a container have, and what keeps runtimes out that do not know it.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::{OrchestratorItem, Text, WorkerItem};

/// The partition of what concerns the whole container; no instance.
pub const SCHEMA_PARTITION: &str = "cdb:schema";

/// The form that this version writes, and the newest that it reads.
///
/// | version | written by | what is new |
/// |---|---|---|
/// | – | `duroxide-cdb` up to 0.1.10, and this provider before it had versions | |
/// | 1 | 0.1.0 | this document and the gate |
pub const SCHEMA_VERSION: u32 = 1;

/// When the documents of the gate are due, and nothing else is: our polls ask for later times.
const GATE: Timestamp = Timestamp::from_millis(0);

/// The earliest time at which anything is due that is to be worked on.
pub const FIRST_DUE: Timestamp = Timestamp::from_millis(1);

/// As many dispatchers of `duroxide-cdb` share the slots of one runtime, at most, when all of them meet the gate.
const GATES: u8 = 16;

/// More than the 32 bits with a sign in which `duroxide-cdb` counts attempts.
const UNREADABLE: u32 = 3_000_000_000;

/// The form of a container's documents. Written once, when a container is opened for the first time.
///
/// ```
/// use cdb_provider::documents::{SCHEMA_PARTITION, SCHEMA_VERSION, SchemaKey};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// // Before a runtime is updated: who wrote the container, in which form?
/// let schema = store.container().read(&SchemaKey::new(SCHEMA_PARTITION)).await?.expect("it was opened once");
/// assert!(schema.document.written_by.starts_with("cdb-provider "));
/// assert!(schema.document.version <= SCHEMA_VERSION); // a newer one is refused by `new`
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "schema", id = "{instance_id}:schema")]
pub struct Schema {
    /// [`SCHEMA_PARTITION`].
    #[document(partition_key)]
    pub instance_id: String,
    /// The oldest form that a runtime must know.
    pub version: u32,
    /// The crate that wrote it, with its version.
    pub written_by: String,
    /// When.
    pub created_at: Timestamp,
}

impl Schema {
    /// Of this version.
    pub fn current(now: Timestamp) -> Self {
        Self {
            instance_id: SCHEMA_PARTITION.to_owned(),
            version: SCHEMA_VERSION,
            written_by: concat!("cdb-provider ", env!("CARGO_PKG_VERSION")).to_owned(),
            created_at: now,
        }
    }
}

/// Items that `duroxide-cdb` finds in every poll and cannot read, which ends the poll. It would take an instance whose
/// history we have written for corrupt and let it fail, so it must not get that far.
pub(crate) fn gate() -> (Vec<OrchestratorItem>, Vec<WorkerItem>) {
    const WHY: &str =
        "this container is used by cdb-provider; duroxide-cdb must not work on it any more";
    let message = |slot: u8| OrchestratorItem {
        instance_id: SCHEMA_PARTITION.to_owned(),
        cause: format!("gate-{slot}"),
        work_item: Text::Inline(WHY.to_owned()),
        dispatch_slot: slot,
        visible_at: GATE,
        enqueued_at: GATE,
        execution_id: None,
        attempt_count: UNREADABLE,
        reserved: false,
        delivered: false,
        ttl: None,
    };
    let activity = |slot: u8| WorkerItem {
        instance_id: SCHEMA_PARTITION.to_owned(),
        execution_id: 0,
        activity_id: u64::from(slot),
        work_item: Text::Inline(WHY.to_owned()),
        dispatch_slot: slot,
        visible_at: GATE,
        enqueued_at: GATE,
        reserved: false,
        lock_token: None,
        locked_until: None,
        attempt_count: UNREADABLE,
        session_id: None,
        tag: None,
    };
    let slots = || 0..GATES;
    (
        slots().map(message).collect(),
        slots().map(activity).collect(),
    )
}
