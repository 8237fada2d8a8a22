//! A value ends at a separator, so that ids can be parsed and patterns compared.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}-{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

fn main() {}
