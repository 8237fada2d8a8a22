//! Flattened fields leave no trace of which paths are stored.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct Rest {
    a: String,
}

fn main() {}
