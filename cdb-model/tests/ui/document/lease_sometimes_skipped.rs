//! A token that is not stored starts at one again, so two holders could have the same token.

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
