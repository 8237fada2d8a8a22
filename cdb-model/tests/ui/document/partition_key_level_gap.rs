//! Levels are numbered from 1 without a gap.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(3))]
    country: String,
    number: u64,
}

fn main() {}
