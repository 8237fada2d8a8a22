//! Without a partition key the service cannot place the document.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    customer: String,
    number: u64,
}

fn main() {}
