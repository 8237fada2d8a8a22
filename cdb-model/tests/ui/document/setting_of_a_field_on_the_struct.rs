//! Indexing is declared at the field.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(index)]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

fn main() {}
