//! The type distinguishes the documents of a container.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
}

fn main() {}
