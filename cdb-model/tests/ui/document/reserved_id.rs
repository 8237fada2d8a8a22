//! The pattern generates the id.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order")]
struct Order {
    #[document(partition_key)]
    customer: String,
    id: String,
}

fn main() {}
