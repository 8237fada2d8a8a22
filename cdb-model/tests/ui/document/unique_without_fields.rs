//! A unique key without fields would allow one document per partition.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(unique())]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

fn main() {}
