//! Two documents of one partition need different ids.

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
#[document(type = "refund", id = "{customer}:order:{reason}")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    reason: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Refund),
}

fn main() {}
