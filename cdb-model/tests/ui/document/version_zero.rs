//! Versions are counted from 1.

use cdb_model::{Document, UnknownFields, UpcastError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}", version = 0)]
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

fn main() {}
