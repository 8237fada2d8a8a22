//! A lease changes, but a partition key does not.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key, lease)]
    customer: String,
    number: u64,
}

fn main() {}
