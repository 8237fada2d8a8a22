//! Composites and fields become constants of the same struct.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(composite(TOTAL = r#type, total))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    total: u64,
}

fn main() {}
