//! Which runtimes share a container: the documents of [`Membership`](cdb_coordination::Membership).

use cdb_coordination::{MemberDocument, MemberRecord};
use cdb_model::Document;
use serde::{Deserialize, Serialize};

/// The roster of the runtimes that share a container, or one runtime's sign of life. None of its fields is indexed, so a
/// container that was made before needs no other policy.
///
/// ```
/// use cdb_provider::coordination::{MemberRecord, MembershipConfig};
/// use cdb_provider::documents::Member;
/// use cdb_provider::model::Query;
/// # use cdb_provider::coordination::MemberDocument as _;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let roster = MemberRecord::Roster { members: vec!["runtime-a".to_owned(), "runtime-b".to_owned()] };
/// # store.container().create(&Member::new("cdb:members", "roster", roster)).await?;
/// // Who shares the container, for a tool that is no member itself; a runtime asks `CosmosDBProvider::members`.
/// let group = MembershipConfig::default().group;
/// let mut names = Vec::new();
/// for found in store.container().query(Query::<Member>::in_partition(&*group)).all().await? {
///     if let MemberRecord::Roster { members } = found.document.record {
///         names = members;
///     }
/// }
/// assert_eq!(names, ["runtime-a", "runtime-b"]);
/// # Ok(()) }
/// ```
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
