//! The membership of runtimes that share a container: the documents of
//! [`Membership`](cdb_coordination::Membership).

use cdb_coordination::membership::{MemberDocument, MemberRecord};
use cdb_model::Document;
use serde::{Deserialize, Serialize};

/// The roster of the runtimes that share a container, or the heartbeat of one runtime. None of its
/// fields is indexed, so existing containers need no other policy.
///
/// ```
/// use cdb_provider::coordination::membership::{MemberRecord, MembershipConfig};
/// use cdb_provider::documents::Member;
/// use cdb_provider::model::{Document as _, Query};
/// # use cdb_provider::coordination::membership::MemberDocument as _;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let roster = MemberRecord::roster(vec!["runtime-a".to_owned(), "runtime-b".to_owned()]);
/// # store.container().run(Member::new("cdb:members", "roster", roster).create()).await?;
/// // Lists the runtimes for a tool; a runtime calls `CosmosDBProvider::members`.
/// let group = MembershipConfig::default().group;
/// let mut names = Vec::new();
/// for found in store.container().query(Query::<Member>::in_partition(&*group)).all().await? {
///     if let MemberRecord::Roster { members, .. } = found.document.record {
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
    /// The group, in the field of the container's partition key. It is not an instance id.
    #[document(partition_key)]
    pub instance_id: String,
    /// The name of the document within the group.
    pub name: String,
    /// The content of the document.
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
