//! A document without a required field would be unreadable.

use cdb_model::{Document, Patch};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    status: String,
    tags: Vec<String>,
    note: Option<String>,
    due: Option<u64>,
}

fn main() {
    let _ = Patch::<Order>::new().move_to(Order::STATUS, Order::NOTE);
}
