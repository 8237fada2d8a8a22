//! The documents of the shop.

use cdb_provider::documents::Durable;
use cdb_provider::model::{Container, Document};
use serde::{Deserialize, Serialize};

/// Everything in the container: duroxide's documents and ours.
#[derive(Container, Clone, Debug)]
#[container(crate = cdb_provider::model)]
pub enum Shop {
    /// What the provider stores.
    #[container(extends)]
    Durable(Durable),
    /// An order.
    Order(Order),
    /// A line of an order.
    OrderLine(OrderLine),
}

/// An order. It lives in the partition of the orchestration that places it.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(crate = cdb_provider::model, type = "order", id = "{instance_id}:order")]
#[document(composite(BY_TOTAL = r#type, state, total_cents))]
pub struct Order {
    /// The orchestration.
    #[document(partition_key)]
    pub instance_id: String,
    /// Who ordered.
    pub customer: String,
    /// Where it stands.
    #[document(index)]
    pub state: OrderState,
    /// What it costs.
    #[document(index)]
    pub total_cents: u64,
    /// Whatever the customer wrote; never searched, so never indexed.
    #[document(unindexed)]
    pub remark: Option<String>,
}

/// Where an order stands.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OrderState {
    /// To be worked on.
    Open,
    /// Done.
    Shipped,
}

/// A line of an order.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(crate = cdb_provider::model, type = "order_line", id = "{instance_id}:line:{line}")]
pub struct OrderLine {
    /// The orchestration.
    #[document(partition_key)]
    pub instance_id: String,
    /// Its number within the order.
    pub line: u32,
    /// The article.
    pub sku: String,
    /// What it costs.
    pub cents: u64,
}
