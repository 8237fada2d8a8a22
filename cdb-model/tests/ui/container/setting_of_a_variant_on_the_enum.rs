//! One variant contains the extended container.

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
#[container(extends, partition_key = "/customer")]
enum Shop {
    Order(Order),
}

fn main() {}
