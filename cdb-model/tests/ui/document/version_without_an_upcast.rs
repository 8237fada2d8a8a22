//! Each version needs the upcast from the one before it.

use serde_json::{Map, Value};

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}", version = 3, upcast(add_city))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

fn add_city(_: &mut Map<String, Value>) -> Result<(), UpcastError> {
    Ok(())
}
