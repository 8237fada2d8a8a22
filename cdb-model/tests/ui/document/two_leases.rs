//! The two holders of one document would not exclude each other.

use cdb_model::{Document, Lease};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(lease)]
    packing: Lease,
    #[document(lease)]
    billing: Lease,
}

fn main() {}
