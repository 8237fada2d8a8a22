//! A document is newer than the type only if both have versions.

use cdb_model::{Document, UnknownFields};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

fn main() {}
