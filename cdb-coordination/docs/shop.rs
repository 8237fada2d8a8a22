// The container of the examples of messaging, leases and stores.
include!("container.rs");

use cdb_coordination::{MessageDocument, Message};
use cdb_model::Document;
use cdb_model::operation::Lease;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "order", id = "{customer}:order:{number}")]
pub struct Order {
    #[document(partition_key)]
    pub customer: String,
    pub number: u64,
    #[document(index)]
    pub state: String,
    #[document(lease)]
    pub lease: Lease,
}

#[derive(Container, Debug)]
pub enum Shop {
    Order(Order),
    Message(MessageDocument<Shop>),
}

#[derive(Serialize, Deserialize, Debug)]
pub struct Placed {
    pub number: u64,
}

impl Message for Placed {
    const TYPE: &'static str = "placed";
}

pub fn order(number: u64) -> Order {
    Order {
        customer: "ann".into(),
        number,
        state: "open".into(),
        lease: Lease::free(),
    }
}

/// Runs an example on a new shop.
pub fn with_shop(
    example: impl AsyncFnOnce(ContainerClient<Shop>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_container("orders", example)
}
