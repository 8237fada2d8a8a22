//! The records that membership stores, inside a document type of the caller's container.
//!
//! A group has one roster, which lists the members, and one document per member, which the member
//! writes with every heartbeat. All of them are in one partition, so that a batch can read and
//! change several at once.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

/// A document type that stores the records of [`Membership`](super::Membership). Every container
/// defines its own, with its own partition key:
///
/// ```
/// use cdb_coordination::membership::{MemberDocument, MemberRecord};
/// use cdb_model::{Container, Document};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "member", id = "{tenant}:member:{name}")]
/// struct Member {
///     #[document(partition_key)]
///     tenant: String,
///     name: String,
///     record: MemberRecord,
/// }
///
/// impl MemberDocument for Member {
///     fn new(group: &str, name: &str, record: MemberRecord) -> Self {
///         Self { tenant: group.to_owned(), name: name.to_owned(), record }
///     }
///
///     fn into_record(self) -> MemberRecord {
///         self.record
///     }
/// }
///
/// #[derive(Container)]
/// enum Shop {
///     Member(Member),
/// }
/// ```
pub trait MemberDocument: Document {
    /// The document `name` of `group`. The group alone must determine the partition, group and name
    /// together the id.
    fn new(group: &str, name: &str, record: MemberRecord) -> Self;

    /// The record of the document.
    fn into_record(self) -> MemberRecord;
}

/// The content of one document of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum MemberRecord {
    /// The members of the group.
    Roster {
        /// The members' names.
        members: Vec<String>,
        /// The schema version; 1 in rosters from before this field. A release that does not know
        /// it does not join.
        #[serde(rename = "form", default = "first_schema")]
        schema_version: u32,
    },
    /// A heartbeat of one member.
    Heartbeat {
        /// Unique for each process that joins under this name.
        incarnation: String,
        /// The interval between heartbeats in milliseconds.
        period_ms: u64,
        /// When it was written, in the service's time as the member knows it. For people: the
        /// failure detector uses the ETag and compares no clocks.
        at: Timestamp,
    },
}

/// The schema version of the documents. It grows when an older release would misread or damage what
/// this release writes. Optional fields do not change it.
pub(super) const SCHEMA_VERSION: u32 = 1;

fn first_schema() -> u32 {
    1
}

impl MemberRecord {
    /// A roster with the schema version of this release.
    pub fn roster(members: Vec<String>) -> Self {
        Self::Roster {
            members,
            schema_version: SCHEMA_VERSION,
        }
    }
}
