//! A filter without an index would read every document.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    status: String,
}

fn main() {
    let _ = Order::STATUS.eq("open");
}
