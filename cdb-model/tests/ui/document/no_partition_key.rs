//! The service distributes documents by partition key.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    customer: String,
    number: u64,
}

fn main() {}
