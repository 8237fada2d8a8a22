//! Only a document type with a field `soft_delete` can be marked as deleted.

use cdb_model::{Document, Patch, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

fn main() {
    let _patch = Patch::<Order>::new().soft_delete(Timestamp::from_secs(1));
}
