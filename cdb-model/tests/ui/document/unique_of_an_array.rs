//! The service compares single values.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(unique(tags))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    tags: Vec<String>,
}

fn main() {}
