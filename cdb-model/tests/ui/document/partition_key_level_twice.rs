//! Each level has one field.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(1))]
    country: String,
    number: u64,
}

fn main() {}
