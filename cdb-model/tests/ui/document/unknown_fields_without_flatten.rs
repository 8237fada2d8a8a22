//! Unknown fields are stored beside the known ones.

use cdb_model::{Document, UnknownFields, UpcastError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}", version = 1)]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(unknown)]
    newer: UnknownFields,
}

fn add_city(_: &mut Map<String, Value>) -> Result<(), UpcastError> {
    Ok(())
}

fn main() {}
