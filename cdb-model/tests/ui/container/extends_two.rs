//! Two bases could conflict.

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
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Store {
    Order(Order),
}

#[derive(Container)]
enum Both {
    #[container(extends)]
    Shop(Shop),
    #[container(extends)]
    Store(Store),
}

fn main() {}
