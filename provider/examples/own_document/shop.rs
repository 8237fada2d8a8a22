//! The documents of the shop.

use cdb_provider::documents::Durable;
use cdb_provider::model::{Container, Document, Scalar};
use serde::{Deserialize, Serialize};

/// All documents of the container, duroxide's and the shop's.
#[expect(clippy::large_enum_variant, reason = "rows are handled one at a time")]
#[derive(Container, Clone, Debug)]
pub(crate) enum Shop {
    /// A document of the provider.
    #[container(extends)]
    Durable(Durable),
    /// An order.
    Order(Order),
    /// A line of an order.
    OrderLine(OrderLine),
}

/// An order, in the partition of the orchestration that places it.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{instance_id}:order")]
#[document(composite(BY_TOTAL = r#type, state, total_cents))]
pub(crate) struct Order {
    /// The orchestration.
    #[document(partition_key)]
    pub(crate) instance_id: String,
    /// The customer.
    pub(crate) customer: String,
    /// The state of the order.
    #[document(index)]
    pub(crate) state: OrderState,
    /// The total price.
    #[document(index)]
    pub(crate) total_cents: u64,
    /// The customer's remark. Never searched, so not indexed.
    #[document(unindexed)]
    pub(crate) remark: Option<String>,
}

/// The state of an order.
#[derive(Scalar, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OrderState {
    /// The order is not shipped yet.
    Open,
    /// The order was shipped.
    Shipped,
}

/// A line of an order.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "order_line", id = "{instance_id}:line:{line}")]
pub(crate) struct OrderLine {
    /// The orchestration.
    #[document(partition_key)]
    pub(crate) instance_id: String,
    /// The number of the line within the order.
    pub(crate) line: u32,
    /// The article.
    pub(crate) sku: String,
    /// The price.
    pub(crate) cents: u64,
}
