//! Versions are counted from 1, with an upcast to each later one and a field for unknown fields.

use serde_json::{Map, Value};

include!("../declaration.rs");

fn add_city(_: &mut Map<String, Value>) -> Result<(), UpcastError> {
    Ok(())
}

/// Versions are counted from 1.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}", version = 0)]
struct Zero {
    #[document(partition_key)]
    customer: String,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

/// Each version needs the upcast from the one before it.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}", version = 3, upcast(add_city))]
struct NoUpcast {
    #[document(partition_key)]
    customer: String,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

/// An upcast leads to a version.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}", upcast(add_city))]
struct NoVersion {
    #[document(partition_key)]
    customer: String,
}

/// A document is newer than the type only if both have versions.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct UnknownWithoutVersion {
    #[document(partition_key)]
    customer: String,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

/// A program must not remove the fields of newer ones. The version has a stored name of its own.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}", version = 1)]
struct NoUnknownFields {
    #[document(partition_key)]
    customer: String,
    #[serde(rename = "schemaVersion")]
    form: u32,
}

/// Unknown fields are stored beside the known ones.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}", version = 1)]
struct NotFlattened {
    #[document(partition_key)]
    customer: String,
    #[document(unknown)]
    newer: UnknownFields,
}
