//! The service supports three levels.

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
#[container(partition_key = "/a, /b, /c, /d")]
enum Shop {
    Order(Order),
}

fn main() {}
