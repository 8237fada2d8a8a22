//! Generated code refers to the model by this path.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(crate = "cdb_model", type = "order", id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
}

fn main() {}
