//! Only a document type with a lease can be leased.

use cdb_model::{Document, Leasable};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

fn lease<D: Leasable>() {}

fn main() {
    lease::<Order>();
}
