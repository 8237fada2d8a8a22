//! A mark has no value.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(unindexed = true)]
    note: String,
    number: u64,
}

fn main() {}
