//! The paths of the partition key are chosen when a container is created.

use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

#[derive(Container)]
enum Shop {
    Order(Order),
}

fn main() {}
