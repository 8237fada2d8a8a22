//! Which runtimes share a container: the documents of [`Membership`](cdb_coordination::Membership).

use cdb_coordination::{MemberDocument, MemberRecord};
use cdb_model::Document;
use serde::{Deserialize, Serialize};

/// The roster of the runtimes that share a container, or one runtime's sign of life. None of its fields is indexed, so a
/// container that was made before needs no other policy.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "member", id = "{instance_id}:member:{name}")]
pub struct Member {
    /// The group, which is no instance: the container's partition key is called so.
    #[document(partition_key)]
    pub instance_id: String,
    /// The document's name within the group.
    pub name: String,
    /// What it says.
    pub record: MemberRecord,
}

impl MemberDocument for Member {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            instance_id: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}
