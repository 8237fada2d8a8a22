//! The service allows 10 unique keys per container.

use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order")]
#[document(unique(f0))]
#[document(unique(f1))]
#[document(unique(f2))]
#[document(unique(f3))]
#[document(unique(f4))]
#[document(unique(f5))]
#[document(unique(f6))]
#[document(unique(f7))]
#[document(unique(f8))]
#[document(unique(f9))]
#[document(unique(f10))]
struct Order {
    #[document(partition_key)]
    customer: String,
    f0: u64,
    f1: u64,
    f2: u64,
    f3: u64,
    f4: u64,
    f5: u64,
    f6: u64,
    f7: u64,
    f8: u64,
    f9: u64,
    f10: u64,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
}

fn main() {}
