//! A patch sets the time of the last write itself.

use cdb_model::{Document, Patch, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(updated_at)]
    updated_at: Option<Timestamp>,
}

fn main() {
    let _patch = Patch::<Order>::new().set(Order::UPDATED_AT, None);
}
