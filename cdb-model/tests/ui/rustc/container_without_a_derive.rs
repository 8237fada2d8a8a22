//! The enum of a container derives `Container`.

use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

enum Shop {
    Order(Order),
}

/// A client takes the container as a type, like this function.
fn open<C: Container>() {}

fn main() {
    open::<Shop>();
}
