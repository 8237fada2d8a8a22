//! A slash in a name could not be told from a step in a path.

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
