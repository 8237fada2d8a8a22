//! The version has a stored name of its own.

use serde_json::{Map, Value};

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}", version = 1)]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(rename = "schemaVersion")]
    form: u32,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

fn add_city(_: &mut Map<String, Value>) -> Result<(), UpcastError> {
    Ok(())
}
