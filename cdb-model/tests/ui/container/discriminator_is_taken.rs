//! The service uses this property.

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
#[container(partition_key = "/customer", discriminator = "_type")]
enum Shop {
    Order(Order),
}

fn main() {}
