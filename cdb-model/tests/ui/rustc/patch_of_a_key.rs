//! Ids and partition keys never change.

use cdb_model::{Document, Patch};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

fn main() {
    let _ = Patch::<Order>::new().set(Order::NUMBER, 2);
}
