//! A value in an id needs a text form.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: Vec<u8>,
}

fn main() {}
