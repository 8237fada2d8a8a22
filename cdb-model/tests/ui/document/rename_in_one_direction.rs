//! A filter uses one stored name.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(rename(serialize = "total", deserialize = "sum"))]
    total: u64,
}

fn main() {}
