//! The types of an extension are compared with the inherited types.

use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:refund:{number}")]
struct Refund {
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
enum Larger {
    #[container(extends)]
    Shop(Shop),
    Refund(Refund),
}

fn main() {}
