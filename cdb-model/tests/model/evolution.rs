//! Versions of document types: upcasts, and documents of newer versions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use cdb_model::shape::UpcastError;
use cdb_model::stored::{UnknownFields, decode, decode_any, encode};
use cdb_model::{Container, Document, Stored, Timestamp};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Version 2: with an address. Version 3: the name is divided.
mod newest {
    use super::*;

    #[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
    #[serde(rename_all = "camelCase")]
    #[document(
        type = "customer",
        id = "{number}",
        version = 3,
        upcast(add_city, divide_name)
    )]
    pub(super) struct Customer {
        #[document(partition_key)]
        pub(super) number: u32,
        pub(super) first_name: String,
        pub(super) last_name: String,
        #[document(index)]
        pub(super) city: String,
        #[serde(flatten)]
        #[document(unknown)]
        pub(super) newer: UnknownFields,
    }

    #[derive(Container, Clone, Debug, PartialEq)]
    pub(super) enum Shop {
        Customer(Customer),
    }
}

/// The same type in its first version, which is prepared for newer ones.
mod first {
    use super::*;

    #[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
    #[document(type = "customer", id = "{number}", version = 1)]
    pub(super) struct Customer {
        #[document(partition_key)]
        pub(super) number: u32,
        #[serde(default)]
        pub(super) orders: u64,
        #[serde(flatten)]
        #[document(unknown)]
        pub(super) newer: UnknownFields,
    }

    #[derive(Container, Clone, Debug, PartialEq)]
    pub(super) enum Shop {
        Customer(Customer),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form of an upcast")]
fn add_city(fields: &mut Map<String, Value>) -> Result<(), UpcastError> {
    fields.insert("city".to_owned(), json!("unknown"));
    Ok(())
}

fn divide_name(fields: &mut Map<String, Value>) -> Result<(), UpcastError> {
    let name = fields.remove("name").ok_or("it has no name")?;
    let name = name.as_str().ok_or("its name is no string")?;
    let (first, last) = name.split_once(' ').unwrap_or(("", name));
    fields.insert("firstName".to_owned(), json!(first));
    fields.insert("lastName".to_owned(), json!(last));
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "a literal")]
fn stored(fields: Value) -> String {
    let mut document = json!({
        "id": "7", "type": "customer", "number": 7,
        "_rid": "r", "_self": "s", "_etag": "\"e\"", "_ts": 5, "_attachments": "a",
    });
    document
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    document.to_string()
}

fn read(fields: Value) -> newest::Customer {
    decode::<newest::Shop, newest::Customer>(&stored(fields))
        .unwrap()
        .document
}

fn ada(city: &str) -> [String; 3] {
    ["Ada".to_owned(), "Lovelace".to_owned(), city.to_owned()]
}

#[test]
fn documents_of_every_version_are_read() {
    for (fields, city) in [
        (json!({ "name": "Ada Lovelace" }), "unknown"),
        (
            json!({ "schemaVersion": 1, "name": "Ada Lovelace" }),
            "unknown",
        ),
        (
            json!({ "schemaVersion": 2, "name": "Ada Lovelace", "city": "London" }),
            "London",
        ),
        (
            json!({ "schemaVersion": 3, "firstName": "Ada", "lastName": "Lovelace", "city": "Ockham" }),
            "Ockham",
        ),
    ] {
        let any: Stored<newest::Shop> = decode_any(&stored(fields.clone())).unwrap();
        let newest::Shop::Customer(any) = any.document;
        let found = read(fields);
        assert_eq!(any, found);
        assert_eq!([found.first_name, found.last_name, found.city], ada(city));
    }
}

#[test]
fn a_document_is_written_in_the_version_of_its_type() {
    for customer in [
        read(json!({ "name": "Ada Lovelace" })),
        newest::Customer {
            number: 7,
            first_name: "Ada".to_owned(),
            last_name: "Lovelace".to_owned(),
            city: "unknown".to_owned(),
            newer: UnknownFields::default(),
        },
    ] {
        let written = encode::<newest::Shop, _>(&customer, Timestamp::default()).unwrap();
        let written: Value = serde_json::from_str(written.json.get()).unwrap();
        let expected = json!({
            "id": "7", "type": "customer", "number": 7, "schemaVersion": 3,
            "firstName": "Ada", "lastName": "Lovelace", "city": "unknown",
        });
        assert_eq!(written, expected);
    }
}

#[test]
fn an_older_program_keeps_the_fields_and_the_version_of_a_newer_document() {
    let newer =
        json!({ "schemaVersion": 3, "firstName": "Ada", "lastName": "Lovelace", "city": "Ockham" });
    let mut old = decode::<first::Shop, first::Customer>(&stored(newer.clone()))
        .unwrap()
        .document;
    assert_eq!(old.newer.as_map()["city"], "Ockham");
    old.orders = 9;
    let written = encode::<first::Shop, _>(&old, Timestamp::default()).unwrap();
    let written: Value = serde_json::from_str(written.json.get()).unwrap();
    let mut expected: Value = serde_json::from_str(&stored(newer)).unwrap();
    let fields = expected.as_object_mut().unwrap();
    fields.retain(|name, _| !name.starts_with('_'));
    fields.insert("orders".to_owned(), json!(9));
    assert_eq!(written, expected);
    // The newer program reads what the older one has written.
    let newest = decode::<newest::Shop, newest::Customer>(&written.to_string()).unwrap();
    assert_eq!(newest.document.newer.as_map()["orders"], 9);
    assert_eq!(newest.document.city, "Ockham");
}

/// A part of a document, which keeps its own unknown fields.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Address {
    city: String,
    #[serde(flatten)]
    newer: Map<String, Value>,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "customer", id = "{number}", version = 1)]
struct Resident {
    #[document(partition_key)]
    number: u32,
    address: Address,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

#[derive(Container, Clone, Debug, PartialEq)]
enum Town {
    Resident(Resident),
}

#[test]
fn a_field_with_a_flattened_map_keeps_the_newer_fields_inside_it() {
    let address = json!({ "city": "Ockham", "zip": "GU23", "id": 7 });
    let newer = stored(json!({ "schemaVersion": 2, "address": address.clone() }));
    let read = decode::<Town, Resident>(&newer).unwrap().document;
    let written = encode::<Town, _>(&read, Timestamp::default()).unwrap();
    let written: Value = serde_json::from_str(written.json.get()).unwrap();
    assert_eq!(written["address"], address);
    assert_eq!(written["schemaVersion"], 2);
}

#[test]
fn a_failed_upcast_names_the_type_and_the_version() {
    let nameless = stored(json!({ "schemaVersion": 2, "city": "London" }));
    let error = decode::<newest::Shop, newest::Customer>(&nameless).unwrap_err();
    let reason = "the upcast of `Customer` from version 2 failed: it has no name";
    assert!(error.to_string().ends_with(reason), "{error}");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        first_name in ".*", last_name in ".*", city in ".*", extra in proptest::collection::btree_map("x[a-z]{1,5}", 1 - (1_i64 << 53)..1 << 53, 0..5),
    ) {
        let newer = json!({ "schemaVersion": 4, "firstName": first_name, "lastName": last_name, "city": city, "number": 7 });
        let mut newer = newer.as_object().unwrap().clone();
        newer.extend(extra.into_iter().map(|(name, value)| (name, json!(value))));
        let customer = read(Value::Object(newer.clone()));
        let written = encode::<newest::Shop, _>(&customer, Timestamp::default()).unwrap();
        let again = decode::<newest::Shop, newest::Customer>(written.json.get()).unwrap().document;
        prop_assert_eq!(&again, &customer);
        let written: Value = serde_json::from_str(written.json.get()).unwrap();
        for (name, value) in newer {
            prop_assert_eq!(&written[&name], &value);
        }
    }
}
