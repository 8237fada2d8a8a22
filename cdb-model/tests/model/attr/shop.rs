//! The derives by behaviour.

use cdb_model::document::Read;
use cdb_model::query::Filter;
use cdb_model::query::statement::{Fetch, Scope};
use cdb_model::stored::{decode, decode_any, encode};
use cdb_model::{Batch, Container, Document, ETag, PartitionKey, Patch, Query, Scalar, Timestamp};
use expect_test::expect;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer_id}:order:{number}")]
#[document(composite(BY_TOTAL = r#type, state, total_cents desc))]
#[document(unique(number))]
struct Order {
    #[document(partition_key)]
    customer_id: String,
    number: u64,
    #[document(index)]
    state: State,
    #[document(index)]
    total_cents: u64,
    #[document(index)]
    tags: Vec<String>,
    #[document(index(city: String, lines[].sku: String))]
    address: Address,
    #[document(unindexed)]
    remark: Option<String>,
    #[serde(rename = "type_of_parcel")]
    r#type_of: Option<String>,
    #[document(ttl)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
}

#[derive(Scalar, Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum State {
    Open,
    Closed,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Address {
    city: String,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "customer", id = "customer")]
struct Customer {
    #[document(partition_key)]
    #[serde(rename = "customerId")]
    customer_id: String,
    name: String,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(discriminator = "kind")]
enum Shop {
    Order(Order),
    Customer(Customer),
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "note", id = "note:{number}")]
struct Note {
    #[document(partition_key)]
    #[serde(rename = "customerId")]
    customer_id: String,
    number: u32,
}

#[derive(Container, Clone, Debug, PartialEq)]
enum LargerShop {
    #[container(extends)]
    Shop(Shop),
    Note(Note),
}

fn order() -> Order {
    Order {
        customer_id: "c:1".to_owned(),
        number: 7,
        state: State::Open,
        total_cents: 1250,
        tags: vec!["gift".to_owned()],
        address: Address {
            city: "Köln".to_owned(),
        },
        remark: None,
        r#type_of: None,
        ttl: None,
    }
}

#[test]
fn a_document_is_encoded_with_id_and_type_and_decoded() {
    let encoded = encode::<Shop, _>(&order(), Timestamp::default()).unwrap();
    expect![[r#"{"id":"c~3A1:order:7","kind":"order","customerId":"c:1","number":7,"state":"open","totalCents":1250,"tags":["gift"],"address":{"city":"Köln"},"remark":null,"type_of_parcel":null}"#]]
    .assert_eq(encoded.json.get());
    let stored = encoded
        .json
        .get()
        .replacen('{', r#"{"_etag":"\"1\"","_ts":12,"_rid":"x","#, 1);
    let back = decode::<Shop, Order>(&stored).unwrap();
    assert_eq!(back.document, order());
    assert_eq!(back.etag.as_str(), "\"1\"");
    assert_eq!(back.timestamp.as_millis(), 12_000);
    assert_eq!(back.id.as_str(), "c~3A1:order:7");
    assert_eq!(
        decode_any::<Shop>(&stored).unwrap().document,
        Shop::Order(order())
    );
    assert_eq!(
        decode_any::<LargerShop>(&stored).unwrap().document,
        LargerShop::Shop(Shop::Order(order()))
    );
}

#[test]
fn a_document_of_another_type_is_an_error() {
    let stored =
        r#"{"id":"customer","kind":"customer","customerId":"1","name":"Ada","_etag":"e","_ts":1}"#;
    let error = decode::<Shop, Order>(stored).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected a `order`, but item `customer` is a `customer`"
    );
    let foreign = stored.replace("\"customer\",", "\"alien\",");
    let error = decode_any::<Shop>(&foreign).unwrap_err();
    assert_eq!(
        error.to_string(),
        "container `Shop` has no document type `alien`"
    );
}

#[test]
fn the_policy_is_the_union_of_all_types() {
    expect![[r#"
        {
          "indexingMode": "consistent",
          "automatic": true,
          "includedPaths": [
            {
              "path": "/address/city/?"
            },
            {
              "path": "/address/lines/[]/sku/?"
            },
            {
              "path": "/kind/?"
            },
            {
              "path": "/state/?"
            },
            {
              "path": "/tags/[]/?"
            },
            {
              "path": "/totalCents/?"
            }
          ],
          "excludedPaths": [
            {
              "path": "/*"
            },
            {
              "path": "/remark/*"
            }
          ],
          "compositeIndexes": [
            [
              {
                "path": "/kind",
                "order": "ascending"
              },
              {
                "path": "/state",
                "order": "ascending"
              },
              {
                "path": "/totalCents",
                "order": "descending"
              }
            ]
          ]
        }"#]]
    .assert_eq(&LargerShop::definition().indexing_policy().to_json_pretty());
}

#[test]
fn queries_filter_by_their_type() {
    let query = Query::<Order>::in_partition("c")
        .filter(Order::STATE.eq(State::Open) & Order::TAGS.contains("gift"))
        .order_by(Order::BY_TOTAL.reversed())
        .limit(5);
    let statement = Fetch::<Shop>::statement(&query).expect("it is valid");
    expect![[r#"SELECT TOP 5 * FROM c WHERE (c["kind"] = @p0 AND c["state"] = @p1 AND ARRAY_CONTAINS(c["tags"], @p2)) ORDER BY c["kind"] DESC, c["state"] DESC, c["totalCents"] ASC"#]]
        .assert_eq(&statement.sql);
    assert_eq!(statement.scope, Scope::Partition(PartitionKey::from("c")));

    let everything = Query::<Shop>::across_partitions()
        .filter(Filter::of_type::<Customer>() | Order::TOTAL_CENTS.gt(100_u64).within());
    expect![[
        r#"SELECT * FROM c WHERE (c["kind"] = @p0 OR (c["kind"] = @p1 AND c["totalCents"] > @p2))"#
    ]]
    .assert_eq(
        &Fetch::<Shop>::statement(&everything)
            .expect("it is valid")
            .sql,
    );
}

#[test]
fn a_condition_needs_no_index() {
    let patch = Patch::<Order>::new()
        .remove(Order::REMARK)
        .when(Order::STATE.eq(State::Open))
        .when_eq(Order::NUMBER, 7);
    let body = patch.body(Timestamp::default()).unwrap();
    let condition = r#"from c where (c["state"] = "open" AND c["number"] = 7)"#;
    assert_eq!(body.condition.as_deref(), Some(condition));
}

#[test]
fn a_read_in_a_batch_requires_no_version() {
    let address = order().address().if_match(&ETag::new("v1"));
    let mut batch = Batch::<Shop>::new("c:1");
    let error = batch.add(Read::new(&address)).unwrap_err().to_string();
    assert!(error.contains("the service ignores the version"), "{error}");
    batch.add(Read::new(address.unconditional())).unwrap();
}

#[test]
fn patches_and_batches_have_the_form_of_the_service() {
    let patch = Patch::<Order>::new()
        .set(Order::STATE, State::Closed)
        .incr(Order::TOTAL_CENTS, -50)
        .remove(Order::REMARK)
        .when(Order::STATE.eq(State::Open));
    let mut batch = Batch::<Shop>::new("c:1");
    batch.add(order().create()).unwrap();
    batch.add(patch.at(&order().key())).unwrap();
    batch.add(CustomerKey::new().delete()).unwrap();
    expect![[r#"[{"operationType":"Create","resourceBody":{"id":"c~3A1:order:7","kind":"order","customerId":"c:1","number":7,"state":"open","totalCents":1250,"tags":["gift"],"address":{"city":"Köln"},"remark":null,"type_of_parcel":null}},{"operationType":"Patch","id":"c~3A1:order:7","resourceBody":{"operations":[{"op":"set","path":"/state","value":"closed"},{"op":"incr","path":"/totalCents","value":-50},{"op":"remove","path":"/remark"}],"condition":"from c where (c[\"totalCents\"] >= 50 AND c[\"state\"] = \"open\")"}},{"operationType":"Delete","id":"customer"}]"#]]
        .assert_eq(&serde_json::to_string(&*batch.operations_at(Timestamp::default())).unwrap());
    assert_eq!(
        batch.size_bytes(),
        serde_json::to_vec(&*batch.operations_at(Timestamp::default()))
            .unwrap()
            .len()
            + 1
    );
    let error = batch
        .add(
            Order {
                customer_id: "d".to_owned(),
                ..order()
            }
            .create(),
        )
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"the batch is for partition ["c:1"], but the document belongs to ["d"]"#
    );
    assert_eq!(batch.len(), 3);
}

#[test]
fn a_batch_never_exceeds_the_limits_of_the_service() {
    let mut batch = Batch::<Shop>::new("c:1");
    for number in 0..100 {
        batch.add(Order { number, ..order() }.create()).unwrap();
    }
    assert_eq!(
        batch.add(order().create()).unwrap_err().to_string(),
        "the service allows 100 operations per batch"
    );
    let mut batch = Batch::<Shop>::new("c:1");
    let large = Order {
        remark: Some("x".repeat(1_500_000)),
        ..order()
    };
    batch.add(large.create()).unwrap();
    assert!(
        batch
            .add(large.create())
            .unwrap_err()
            .to_string()
            .contains("the service allows 2097152")
    );
}

#[test]
fn append_adds_all_operations_of_a_batch_or_none() {
    let note = |number| Note {
        customer_id: "c:1".to_owned(),
        number,
    };
    let mut batch = Batch::<Shop>::new("c:1");
    batch.add(order().create()).unwrap();
    let mut more = Batch::<LargerShop>::new("c:1");
    for number in 0..99 {
        more.add(note(number).create()).unwrap();
    }
    batch.append(&more).unwrap();
    assert_eq!(batch.len(), 100);
    let sent = serde_json::to_string(&*batch.operations_at(Timestamp::default())).unwrap();
    assert_eq!(
        batch.size_bytes(),
        sent.len() + 1,
        "a comma too many is counted"
    );
    let last = batch.id(99.into()).unwrap();
    assert_eq!(last.as_str(), "note:98");
    assert!(batch.append(&more).is_err(), "it is full");
    assert_eq!(batch.len(), 100);
    let mut elsewhere = Batch::<LargerShop>::new("c:2");
    elsewhere
        .add(
            Note {
                customer_id: "c:2".to_owned(),
                number: 1,
            }
            .create(),
        )
        .unwrap();
    assert!(Batch::<Shop>::new("c:1").append(&elsewhere).is_err());
}
