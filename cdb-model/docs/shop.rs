// The model of the examples in this crate's documentation, which include it. The crate does not
// compile it.
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "order:{number}")]
#[document(composite(BY_TOTAL = r#type, total_cents))]
pub struct Order {
    #[document(partition_key)]
    pub customer_id: String,
    pub number: u64,
    #[document(index)]
    pub total_cents: u64,
    #[document(unindexed)]
    pub remark: Option<String>,
}

#[derive(Container)]
pub enum Shop {
    Order(Order),
}
