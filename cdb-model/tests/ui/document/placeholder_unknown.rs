//! A placeholder is a field.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{custmer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

fn main() {}
