//! The type is stored as a string.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = 7, id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
}

fn main() {}
