//! Other processes have to read the lease.

use cdb_model::{Document, Lease};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(lease)]
    #[serde(skip)]
    lease: Lease,
}

fn main() {}
