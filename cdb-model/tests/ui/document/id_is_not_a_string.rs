//! The pattern contains literals and placeholders, so it is a string.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = customer)]
struct Order {
    #[document(partition_key)]
    customer: String,
}

fn main() {}
