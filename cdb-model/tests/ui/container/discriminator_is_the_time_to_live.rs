//! The service expects a number of seconds in `ttl`.

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
#[container(partition_key = "/customer", discriminator = "ttl")]
enum Shop {
    Order(Order),
}

fn main() {}
