//! Global secondary indexes: the definition, and documents as the service returns them.

use cdb_model::{
    Container, ContainerDefinition, Document, DocumentKey, Fetch, Projection, Query, decode,
    decode_any,
};
use expect_test::expect;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "order:{number}")]
struct Order {
    #[document(partition_key)]
    customer_id: String,
    number: u64,
    status: String,
    #[serde(rename = "order")]
    ordered_at: u64,
    #[serde(rename = "ship-to")]
    address: Address,
    remark: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Address {
    city: String,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "customer", id = "customer")]
struct Customer {
    #[document(partition_key)]
    customer_id: String,
    name: String,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(partition_key = "/customerId", discriminator = "kind")]
enum Shop {
    Order(Order),
    Customer(Customer),
}

#[derive(Document, Projection, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[projection(of = Order)]
#[document(type = "order", id = "order:{number}")]
#[document(composite(BY_CITY = city, ordered_at), computed(city: String = "{address}.city", index))]
struct OrderByStatus {
    #[document(partition_key)]
    status: String,
    number: u64,
    #[document(index)]
    #[serde(rename = "order")]
    ordered_at: u64,
    #[serde(rename = "ship-to")]
    address: Address,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(index_of = Shop, partition_key = "/status")]
enum ShopByStatus {
    Order(OrderByStatus),
}

/// An index with all types of its source.
#[derive(Document, Projection, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[projection(of = Customer)]
#[document(type = "customer", id = "customer")]
struct CustomerByName {
    #[document(partition_key)]
    name: String,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(index_of = Shop, partition_key = "/name")]
enum ShopByName {
    Customer(CustomerByName),
}

const STORED: &str = r#"{
    "status": "open", "number": 7, "order": 3, "ship-to": { "city": "Ulm" }, "kind": "order", "customerId": "ada",
    "id": "opaque", "_id": "order:7", "_etag": "\"e\"", "_ts": 9
}"#;

#[test]
fn the_definition_selects_the_type_the_key_of_the_source_and_all_fields() {
    let definition = ShopByStatus::definition();
    let index = definition.index_of.as_ref().unwrap();
    expect![[
        r#"SELECT c.kind, c.customerId, c.number, c["order"], c["ship-to"], c.status FROM c"#
    ]]
    .assert_eq(&index.definition);
    assert_eq!(index.source_collection_id, None);
    assert_eq!(definition.partition_key.paths, ["/status"]);
    assert_eq!(definition.default_ttl, None);
    assert_eq!(Shop::definition().index_of, None);

    let json = serde_json::to_value(&definition).unwrap();
    assert_eq!(
        json["materializedViewDefinition"],
        serde_json::json!({ "definition": index.definition })
    );
    let read: ContainerDefinition = serde_json::from_value(json).unwrap();
    assert_eq!(read, definition);
    let plain = serde_json::to_value(Shop::definition()).unwrap();
    assert_eq!(plain.get("materializedViewDefinition"), None);
}

#[test]
fn a_document_has_the_id_of_the_document_that_it_follows_from() {
    let stored = decode::<ShopByStatus, OrderByStatus>(STORED).unwrap();
    assert_eq!(stored.id.as_str(), "order:7");
    assert_eq!(stored.document.key().to_id().unwrap(), stored.id);
    let any = decode_any::<ShopByStatus>(STORED).unwrap();
    assert_eq!(any.id, stored.id);
    assert_eq!(any.document, ShopByStatus::Order(stored.document));
}

#[test]
fn a_query_of_an_index_leaves_out_the_other_types_of_the_source() {
    let of = |statement: cdb_model::Statement| (statement.sql, statement.parameters.len());
    let all = Query::<ShopByStatus>::in_partition("open");
    let statement = Fetch::<ShopByStatus>::statement(&all).unwrap();
    assert_eq!(
        of(statement),
        (r#"SELECT * FROM c WHERE c["kind"] = @p0"#.to_owned(), 1)
    );
    let whole = Query::<Shop>::in_partition("ada");
    let statement = Fetch::<Shop>::statement(&whole).unwrap();
    assert_eq!(of(statement), ("SELECT * FROM c".to_owned(), 0));
    // The filter has its index.
    let policy = ShopByStatus::definition().indexing_policy;
    let everywhere = Query::<ShopByStatus>::across_partitions();
    let explained = everywhere.explain(&policy, ShopByStatus::DISCRIMINATOR);
    assert!(explained.is_narrowed(), "{explained}");
    let by_city = Query::<OrderByStatus>::across_partitions().order_by(OrderByStatus::BY_CITY);
    assert!(by_city.explain(&policy, "kind").is_narrowed());
    assert!(ShopByName::definition().index_of.is_some());
}
