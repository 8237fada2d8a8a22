//! A discriminator and a policy belong to one type.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Order<T> {
    #[document(partition_key)]
    customer: String,
    payload: T,
}

fn main() {}
