// The shop of the book, with every field that its pages add. The examples of the book include this
// file in a hidden line.
include!("../../cdb-coordination/docs/container.rs");
include!("../../cdb-coordination/docs/with_feed.rs");

use cdb_coordination::MessageDocument;
use cdb_model::operation::Lease;
use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:order:{number}")]
#[document(composite(BY_TOTAL = r#type, state, total_cents))]
pub struct Order {
    #[document(partition_key)]
    pub customer: String,
    pub number: u64,
    #[document(index)]
    pub state: String,
    #[document(index)]
    pub total_cents: u64,
    #[document(index)]
    pub tags: Vec<String>,
    pub remark: Option<String>,
    pub answer: Option<String>,
    #[document(paths(street: String))]
    pub address: Address,
    #[document(created_at)]
    pub created_at: Option<Timestamp>,
    #[document(updated_at, index)]
    pub updated_at: Option<Timestamp>,
    #[document(soft_delete)]
    pub deleted_at: Option<Timestamp>,
    #[document(lease)]
    pub lease: Lease,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Address {
    pub street: String,
}

#[derive(Container, Debug)]
pub enum Shop {
    Order(Order),
    Message(MessageDocument<Shop>),
}

/// An open order of Ann.
pub fn order(number: u64) -> Order {
    Order {
        customer: "ann".into(),
        number,
        state: "open".into(),
        total_cents: 990,
        tags: Vec::new(),
        remark: None,
        answer: None,
        address: Address::default(),
        created_at: None,
        updated_at: None,
        deleted_at: None,
        lease: Lease::free(),
    }
}

/// Runs an example on a new shop.
pub fn with_shop(
    example: impl AsyncFnOnce(ContainerClient<Shop>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_container("orders", example)
}
