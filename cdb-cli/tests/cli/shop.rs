//! A container of the tests, so that snapshots do not change with the provider's documents.

use cdb_cli::Cli;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "order:{number}", unique(number))]
#[document(composite(BY_TOTAL = r#type, total_cents))]
pub(crate) struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    pub(crate) status: String,
    #[document(index)]
    total_cents: u64,
    #[document(index)]
    tags: Vec<String>,
    #[document(unindexed)]
    remark: String,
}

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "payment", id = "payment:{order}:{attempt}")]
pub(crate) struct Payment {
    #[document(partition_key)]
    customer: String,
    // Every type has the field of the order's unique key.
    #[serde(rename = "number")]
    order: u64,
    attempt: u32,
    #[document(index)]
    settled_at: Option<u64>,
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
}

impl Payment {
    pub(crate) fn example() -> Self {
        Self {
            customer: "Ada".to_owned(),
            order: 1_001,
            attempt: 1,
            settled_at: Some(1),
            ttl: None,
        }
    }
}

#[derive(Container)]
pub(crate) enum Shop {
    Order(Order),
    Payment(Payment),
}

/// A container with one document type.
#[derive(Container)]
pub(crate) enum Orders {
    Order(Order),
}

/// The command of the shop.
pub(crate) fn shop() -> Cli<Shop> {
    Cli::<Shop>::new("duroxide")
}
