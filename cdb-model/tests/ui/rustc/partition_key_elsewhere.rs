//! A container has its partition key at one path.

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
#[document(type = "refund", id = "{refund}:refund")]
struct Refund {
    #[document(partition_key)]
    #[serde(rename = "refundId")]
    refund: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Refund),
}

fn main() {}
