// The model of the examples in this crate's documentation, which include it. The crate does not
// compile it.
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "order", id = "{customer}:order:{number}")]
pub struct Order {
    #[document(partition_key)]
    pub customer: String,
    pub number: u64,
    #[document(index)]
    pub status: String,
}

#[derive(Container, Debug)]
pub enum Shop {
    Order(Order),
}
