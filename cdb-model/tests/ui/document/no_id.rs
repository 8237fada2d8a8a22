//! Every document has an id, and only its author knows which fields make it unique.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order")]
struct Order {
    #[document(partition_key)]
    customer: String,
}

fn main() {}
