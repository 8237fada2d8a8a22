// The container of the examples of membership.
include!("container.rs");

use cdb_coordination::membership::{MemberDocument, MemberRecord};
use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{group}:member:{name}")]
pub struct TeamMember {
    #[document(partition_key)]
    pub group: String,
    pub name: String,
    pub record: MemberRecord,
}

impl MemberDocument for TeamMember {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            group: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

#[derive(Container)]
pub enum Team {
    Member(TeamMember),
}
