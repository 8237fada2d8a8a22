//! Only numbers have a sum and an average.

use cdb_model::{Document, Query};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    status: String,
    tags: Vec<String>,
}

fn main() {
    let _ = Query::<Order>::across_partitions().sum(Order::STATUS);
}
