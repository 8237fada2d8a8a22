//! The type tells documents of one container apart.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
}

fn main() {}
