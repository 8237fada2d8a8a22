//! Only arrays have elements.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(index)]
    number: u64,
    #[document(index)]
    status: String,
    #[document(index)]
    tags: Vec<String>,
}

fn main() {
    let _ = Order::STATUS.contains_any(["open"]);
}
