//! A document without a partition key value would be in a partition that no key names.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: Option<String>,
    number: u64,
}

fn main() {}
