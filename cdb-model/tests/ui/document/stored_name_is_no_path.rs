//! A slash in a name cannot be distinguished from a step of a path.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(rename = "net/gross")]
    total: u64,
}

fn main() {}
