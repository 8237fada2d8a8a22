//! The model stores the discriminator.

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
#[document(type = "refund", id = "{customer}:refund")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    kind: String,
}

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "kind")]
enum Shop {
    Order(Order),
    Refund(Refund),
}

fn main() {}
