//! What membership keeps in the container, inside a document type of the container's own.
//!
//! The documents of a group are one roster, which names the members, and one document per member, which the member
//! writes with every heartbeat. They lie in one partition, so that a batch can change or see several of them at once.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

/// A document type that holds the records of [`Membership`](super::Membership). Each container gives it its own, because
/// each has its own partition key:
///
/// ```
/// use cdb_coordination::{MemberDocument, MemberRecord};
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
/// #[container(partition_key = "/tenant")]
/// enum Shop {
///     Member(Member),
/// }
/// ```
pub trait MemberDocument: Document {
    /// The document of `group` with this name. Group and name together make its id, the group alone its partition.
    fn new(group: &str, name: &str, record: MemberRecord) -> Self;

    /// What it holds.
    fn into_record(self) -> MemberRecord;
}

/// One document of a group.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_coordination::{MemberRecord, Membership, MembershipConfig, Standing, Work, WorkMember};
/// use cdb_model::Query;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// # let me = Membership::start::<WorkMember, _>(container.clone(), MembershipConfig::named("worker-1"));
/// # me.watch().wait_for(|view| view.standing() == Standing::Member).await?;
/// // From outside: who belongs to the group?
/// let found = container.query(Query::<WorkMember>::in_partition("cdb:members")).all().await?;
/// let roster = found.into_iter().find_map(|stored| match stored.document.record {
///     MemberRecord::Roster { members } => Some(members),
///     MemberRecord::Heartbeat { .. } => None,
/// });
/// assert_eq!(roster, Some(vec!["worker-1".to_owned()]));
/// # me.leave().await; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum MemberRecord {
    /// Who belongs to the group.
    Roster {
        /// The members' names.
        members: Vec<String>,
    },
    /// A sign of life.
    Heartbeat {
        /// Another one each time that a process joins under this name.
        incarnation: String,
        /// The time between two heartbeats.
        period_ms: u64,
        /// When it was written, as the member knows the service's time. For people: silence is judged by the ETag, so
        /// that no two clocks are compared.
        at: Timestamp,
    },
}
