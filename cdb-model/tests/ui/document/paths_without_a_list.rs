//! `paths` lists paths inside a field.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(paths)]
    address: Vec<String>,
    #[document(paths(lines[].sku: String))]
    cart: Vec<String>,
}

fn main() {}
