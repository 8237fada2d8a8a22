//! A projection has only fields of its document.

use cdb_model::{Document, Projection};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    status: String,
    tags: Vec<String>,
}

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number {
    numbr: u64,
}

fn main() {}
