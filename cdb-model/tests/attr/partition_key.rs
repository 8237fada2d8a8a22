//! `partition_key`: the order of levels is independent of the order of fields.

use cdb_model::{Container, Document, DocumentKey as _, PartitionKeyKind};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
#[document(type = "event", id = "{tenant_id}:{user_id}:{number}")]
struct Event {
    number: u32,
    #[document(partition_key(2))]
    user_id: u32,
    #[document(partition_key(3))]
    archived: bool,
    #[document(partition_key(1))]
    tenant_id: String,
}

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "member", id = "member:{tenant_id}:{user_id}:{archived}")]
struct Member {
    #[document(partition_key(1))]
    tenant_id: String,
    #[document(partition_key(2))]
    user_id: u32,
    #[document(partition_key(3))]
    archived: bool,
}

#[derive(Container)]
enum Log {
    Event(Event),
    Member(Member),
}

#[test]
fn levels_are_in_the_order_of_their_numbers() {
    let event = Event {
        number: 1,
        user_id: 7,
        archived: false,
        tenant_id: "t".to_owned(),
    };
    assert_eq!(event.partition_key().to_header(), r#"["t",7,false]"#);
    assert_eq!(
        Event::SHAPE.partition_key,
        ["/tenantId", "/userId", "/archived"]
    );
}

#[test]
fn a_container_with_levels_is_hashed_over_all_of_them() {
    let key = Log::definition().partition_key;
    assert_eq!(key.paths, ["/tenantId", "/userId", "/archived"]);
    assert_eq!(key.kind, PartitionKeyKind::MultiHash);
}

#[test]
fn a_key_with_all_levels_locates_its_document() {
    let key = MemberKey::new("t", 7_u32, true);
    assert_eq!(key.partition().to_header(), r#"["t",7,true]"#);
}
