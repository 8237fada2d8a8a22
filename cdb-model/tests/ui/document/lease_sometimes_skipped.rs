//! A token that is forgotten begins at one again, and an old holder has the same.

use cdb_model::{Document, Lease};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(lease)]
    #[serde(skip_serializing_if = "is_free")]
    lease: Lease,
}

fn main() {}
