//! A document has no time of creation until it is written.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(created_at)]
    created_at: Timestamp,
}

fn main() {}
