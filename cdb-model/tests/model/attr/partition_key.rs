//! `partition_key`: levels in their order, and levels as a struct that types share.

use cdb_model::container::PartitionKeyKind;
use cdb_model::{Container, Document, DocumentKey as _, PartitionKey, PartitionKeyFields};
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

#[derive(PartitionKeyFields, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Place {
    country: String,
    #[serde(rename = "zip")]
    postal_code: u32,
}

#[derive(Document, Serialize, Deserialize, Debug, PartialEq)]
#[document(type = "shop", id = "shop:{number}")]
struct Shop {
    #[serde(flatten)]
    #[document(partition_key)]
    place: Place,
    number: u64,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "house", id = "house:{name}")]
struct House {
    name: String,
    #[serde(flatten)]
    #[document(partition_key)]
    at: Place,
}

#[derive(Container)]
enum Town {
    Shop(Shop),
    House(House),
}

fn place() -> Place {
    Place {
        country: "de".to_owned(),
        postal_code: 80_331,
    }
}

#[test]
fn fields_of_a_flattened_key_are_levels_in_their_order() {
    let shop = Shop {
        place: place(),
        number: 7,
    };
    assert_eq!(shop.partition_key(), ("de", 80_331).into());
    assert_eq!(PartitionKey::from(&place()), PartitionKey::from(place()));
    assert_eq!(Town::definition().partition_key.paths, ["/country", "/zip"]);
    assert_eq!(House::SHAPE.partition_key, Town::PARTITION_KEY);
}

#[test]
fn fields_of_a_flattened_key_are_stored_beside_the_others() {
    let shop = Shop {
        place: place(),
        number: 7,
    };
    let json = Shop::field_codec().write(&shop).unwrap();
    assert_eq!(json, r#"{"country":"de","zip":80331,"number":7}"#);
    assert_eq!(Shop::field_codec().read(&json).unwrap(), shop);
}
