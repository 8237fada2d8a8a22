//! The documents of the shop.

use cdb_provider::documents::Durable;
use cdb_provider::model::{Container, Document};
use serde::{Deserialize, Serialize};

/// Everything in the container: duroxide's documents and ours.
#[expect(clippy::large_enum_variant, reason = "rows are handled one at a time")]
#[derive(Container, Clone, Debug)]
#[container(crate = cdb_provider::model)]
pub(crate) enum Shop {
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
pub(crate) struct Order {
    /// The orchestration.
    #[document(partition_key)]
    pub(crate) instance_id: String,
    /// Who ordered.
    pub(crate) customer: String,
    /// Where it stands.
    #[document(index)]
    pub(crate) state: OrderState,
    /// What it costs.
    #[document(index)]
    pub(crate) total_cents: u64,
    /// Whatever the customer wrote; never searched, so never indexed.
    #[document(unindexed)]
    pub(crate) remark: Option<String>,
}

/// Where an order stands.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OrderState {
    /// To be worked on.
    Open,
    /// Done.
    Shipped,
}

/// A line of an order.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(crate = cdb_provider::model, type = "order_line", id = "{instance_id}:line:{line}")]
pub(crate) struct OrderLine {
    /// The orchestration.
    #[document(partition_key)]
    pub(crate) instance_id: String,
    /// Its number within the order.
    pub(crate) line: u32,
    /// The article.
    pub(crate) sku: String,
    /// What it costs.
    pub(crate) cents: u64,
}
