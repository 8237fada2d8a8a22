//! The documents of change-feed processors, in a container of their own.

use cdb_client::feed::{FeedCursor, FeedStart};
use cdb_model::operation::Lease;
use cdb_model::{Container, Document, Timestamp};
use serde::{Deserialize, Serialize};

use crate::membership::{MemberDocument, MemberRecord};

/// The documents of the container that stores the progress of
/// [`ChangeProcessor`](crate::ChangeProcessor)s. One container serves any number of processors; each
/// has a partition.
#[derive(Container, Clone, Debug)]
#[non_exhaustive]
pub enum ChangeFeedState {
    /// A processor.
    Processor(ProcessorDocument),
    /// A part of its feed.
    Part(PartDocument),
    /// A process that runs it.
    Member(FeedMember),
}

/// A processor.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "changeProcessor", id = "{processor}:processor")]
pub struct ProcessorDocument {
    /// The name of the processor.
    #[document(partition_key)]
    pub processor: String,
    /// Grows when the processor is reset. Parts of other generations are obsolete.
    pub generation: u64,
    /// Random in each first start and reset. A writer whose answer was lost recognizes its write.
    #[serde(default)]
    #[document(unindexed)]
    pub start_id: String,
}

impl ProcessorDocument {
    pub(super) fn new(processor: &str, generation: u64) -> Self {
        Self {
            processor: processor.to_owned(),
            generation,
            start_id: uuid::Uuid::new_v4().simple().to_string(),
        }
    }
}

/// A part of a feed, from one boundary in the hash space of partition keys to the next. One
/// process reads it, the holder of its lease.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "feedPart", id = "{processor}:part:{generation}:{borders}")]
pub struct PartDocument {
    /// The name of the processor.
    #[document(partition_key)]
    pub processor: String,
    /// The generation of the processor.
    pub generation: u64,
    /// The boundaries, such as `05C1DFFFFFFFFC-FF`.
    pub borders: String,
    /// The position after the last handled change.
    #[document(unindexed)]
    pub cursor: FeedCursor,
    /// The container whose changes it covers, as its reader knows it. Not stored before the first
    /// write of a reader. Boxed to keep the container's enum small.
    #[document(unindexed)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<FeedSource>>,
    /// The last failure, until a later attempt succeeds. Boxed as `source`.
    #[document(unindexed)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<PartFailure>>,
    /// Whether other parts have replaced this one, after its physical partition was split.
    #[document(unindexed)]
    pub divided: bool,
    /// The lease of the reader.
    #[document(lease)]
    pub lease: Lease,
}

/// The container whose changes a processor handles.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FeedSource {
    /// The database.
    pub database: String,
    /// The container.
    pub container: String,
    /// Whether the processor handles all versions and deletions.
    pub all_versions: bool,
}

/// A failed read or a failed handler. Its part waits until a later attempt succeeds.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PartFailure {
    /// How many attempts failed since the last success.
    pub attempts: u32,
    /// When the last one failed, in the service's time.
    pub at: Timestamp,
    /// The error, cut to 1,000 bytes.
    pub reason: String,
    /// When the next attempt begins.
    pub next_attempt: Timestamp,
}

impl PartDocument {
    pub(super) fn new(processor: &str, generation: u64, cursor: FeedCursor) -> Self {
        Self {
            processor: processor.to_owned(),
            generation,
            borders: cursor.boundaries(),
            cursor,
            source: None,
            failure: None,
            divided: false,
            lease: Lease::free(),
        }
    }

    /// The part from which all others of a generation stem.
    pub(super) fn whole(processor: &str, generation: u64, start: FeedStart) -> Self {
        Self::new(processor, generation, FeedCursor::new(start))
    }
}

/// A process that runs a processor.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "feedMember", id = "{processor}:member:{name}")]
pub struct FeedMember {
    /// The name of the processor.
    #[document(partition_key)]
    pub processor: String,
    /// The name of the document.
    pub name: String,
    /// The record.
    #[document(unindexed)]
    pub record: MemberRecord,
}

impl MemberDocument for FeedMember {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            processor: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}
