//! A container stores only its own types.

use cdb_model::{Batch, Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "{customer}:refund")]
struct Refund {
    #[document(partition_key)]
    customer: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
}

fn main() {
    let refund = Refund { customer: "c".to_owned() };
    let _ = Batch::<Shop>::new("c").create(&refund);
}
