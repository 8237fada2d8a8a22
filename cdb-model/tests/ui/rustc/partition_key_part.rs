//! The service partitions by strings, numbers and booleans.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Order {
    #[document(partition_key)]
    customer: u64,
}

fn main() {}
