//! `derive(Container)` by behaviour: the types of a container, decoding, extensions.

use cdb_model::container::ContainerDefinition;
use cdb_model::document::DecodeError;
use cdb_model::policy::ComputedProperty;
use cdb_model::stored::{decode, decode_any};
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

macro_rules! documents {
    ($($name:ident $discriminator:literal $id:literal),* $(,)?) => {$(
        #[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
        #[document(type = $discriminator, id = $id)]
        struct $name {
            #[document(partition_key)]
            customer: String,
            number: u32,
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                Self { customer: "c".to_owned(), number }
            }
        }
    )*};
}

documents! {
    Order "order" "order:{number}",
    Refund "refund" "refund:{number}",
    Return "return" "return:{number}",
    Label "label" "label:{number}",
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(discriminator = "kind")]
enum Shop {
    Order(Order),
    /// The variant and its type may have different names.
    Money(Refund),
}

#[derive(Container, Clone, Debug, PartialEq)]
enum WithReturns {
    Return(Return),
    #[container(extends)]
    Shop(Shop),
}

#[derive(Container, Clone, Debug, PartialEq)]
enum WithLabels {
    #[container(extends)]
    WithReturns(WithReturns),
    Label(Label),
}

#[derive(Container, Clone, Debug, PartialEq)]
enum OnlyExtended {
    #[container(extends)]
    Shop(Shop),
}

fn discriminators<C: Container>() -> Vec<&'static str> {
    C::DOCUMENTS
        .iter()
        .map(|shape| shape.discriminator)
        .collect()
}

#[test]
fn an_extension_contains_inherited_and_own_types() {
    assert_eq!(discriminators::<Shop>(), ["order", "refund"]);
    assert_eq!(
        discriminators::<WithReturns>(),
        ["order", "refund", "return"]
    );
    assert_eq!(
        discriminators::<WithLabels>(),
        ["order", "refund", "return", "label"]
    );
    assert_eq!(discriminators::<OnlyExtended>(), discriminators::<Shop>());
}

#[test]
fn a_document_is_decoded_into_its_variant_at_any_depth() {
    let json = r#"{"customer":"c","number":7,"kind":"ignored here","_etag":"e"}"#;
    let refund = Shop::Money(Refund::from(7));
    assert_eq!(Shop::decode("refund", json).unwrap(), refund);
    assert_eq!(
        WithLabels::decode("refund", json).unwrap(),
        WithLabels::WithReturns(WithReturns::Shop(refund))
    );
    assert_eq!(
        WithLabels::decode("label", json).unwrap(),
        WithLabels::Label(Label::from(7))
    );
}

#[test]
fn decode_errors_name_the_type() {
    let error = WithLabels::decode("voucher", "{}").unwrap_err();
    assert!(matches!(error, DecodeError::UnknownType { .. }), "{error}");
    let error = WithLabels::decode("order", "{}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "item `` does not match `Order`: missing field `customer` at line 1 column 2"
    );
}

#[test]
fn an_unreadable_document_returns_its_readable_parts() {
    let unreadable = |json: &str| {
        let reason = decode_any::<Shop>(json).expect_err("it is damaged");
        cdb_model::stored::Unreadable::new::<Shop>(json, reason)
    };
    let json = r#"{"id":"o","_etag":"7","_ts":5,"kind":"order","customer":"c","number":"many"}"#;
    let damaged = unreadable(json);
    assert!(damaged.is_a::<Order>() && !damaged.is_a::<Refund>());
    assert_eq!(damaged.field(Order::CUSTOMER), Some("c".to_owned()));
    assert_eq!(damaged.field(Order::NUMBER), None);
    assert_eq!(damaged.timestamp(), cdb_model::Timestamp::from_secs(5));
    let location = damaged.location.expect("it has a location");
    assert_eq!(location.id.as_str(), "o");
    assert_eq!(location.partition_key, "c".into());
    let foreign = unreadable(r#"{"id":"f","_etag":"7","_ts":"never","kind":5,"customer":[]}"#);
    assert!(!foreign.is_a::<Order>());
    assert_eq!(foreign.discriminator, "");
    assert_eq!(foreign.timestamp(), cdb_model::Timestamp::default());
}

#[test]
fn a_document_that_does_not_match_its_type_is_named_by_its_id() {
    let json = r#"{"id": "order:1", "kind": "order", "customer": "c", "number": "one"}"#;
    let errors = [
        decode::<Shop, Order>(json).map(drop).unwrap_err(),
        decode_any::<Shop>(json).map(drop).unwrap_err(),
    ];
    for error in errors {
        let expected = "item `order:1` does not match `Order`: invalid type: string \"one\"";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn a_list_of_the_definition_that_is_too_long_is_named() {
    let definition = Shop::definition();
    assert_eq!(definition.check_limits(), Ok(()));
    let exceeded = |change: fn(&mut ContainerDefinition)| {
        let mut definition = definition.clone();
        change(&mut definition);
        let exceeded = definition.check_limits().expect_err("it is too long");
        (exceeded.entries, exceeded.found, exceeded.limit)
    };
    assert_eq!(
        exceeded(|it| {
            let path = it.indexing_policy.included_paths[0].clone();
            it.indexing_policy.included_paths = vec![path; 1_501];
        }),
        ("included paths", 1_501, 1_500)
    );
    assert_eq!(
        exceeded(|it| {
            let path = it.indexing_policy.excluded_paths[0].clone();
            it.indexing_policy.excluded_paths = vec![path; 1_501];
        }),
        ("excluded paths", 1_501, 1_500)
    );
    assert_eq!(
        exceeded(|it| it.indexing_policy.composite_indexes = vec![Vec::new(); 101]),
        ("composite indexes", 101, 100)
    );
    assert_eq!(
        exceeded(|it| {
            it.computed_properties = vec![
                ComputedProperty {
                    name: "n".to_owned(),
                    query: "q".to_owned()
                };
                21
            ];
        }),
        ("computed properties", 21, 20)
    );
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "invoice", id = "invoice:{uuid}", unique(r#type, number))]
struct Invoice {
    #[document(partition_key)]
    customer: String,
    uuid: String,
    number: u32,
}

/// A partition has at most one, so it conflicts with no other document without a number.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "counter", id = "counter")]
struct Counter {
    #[document(partition_key)]
    customer: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "profile", id = "profile")]
struct Profile {
    #[document(partition_key)]
    customer: String,
}

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "kind")]
enum Invoices {
    Invoice(Invoice),
    Order(Order),
    Counter(Counter),
    Profile(Profile),
}

#[test]
fn a_unique_key_with_the_discriminator_is_a_key_of_each_type() {
    let keys = Invoices::definition().unique_key_policy.unique_keys;
    let paths: Vec<_> = keys.into_iter().map(|key| key.paths).collect();
    assert_eq!(paths, [["/kind", "/number"]]);
}
