//! The orchestration and its activities.

use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};

/// The name of the orchestration.
pub(crate) const FULFIL: &str = "FulfilOrder";
/// The name of the event that approves a large order.
pub(crate) const APPROVAL: &str = "Approval";
/// The custom status of an order that waits for its approval.
pub(crate) const WAITING: &str = "waiting for approval";
/// The custom status of an order that has been charged.
pub(crate) const PACKING: &str = "charged, being packed";

const APPROVAL_LIMIT_CENTS: u64 = 50_000;
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(3);
const PACKING_TIME: Duration = Duration::from_secs(2);

/// An order of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The order number.
    pub(crate) id: String,
    /// The customer.
    pub(crate) customer: String,
    /// The order lines.
    pub(crate) items: Vec<Item>,
}

/// A line of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Item {
    /// The article.
    pub(crate) sku: String,
    /// The ordered quantity.
    pub(crate) quantity: u32,
    /// The price of one article.
    pub(crate) cents: u64,
}

impl Order {
    fn cents(&self) -> u64 {
        self.items
            .iter()
            .map(|item| item.cents * u64::from(item.quantity))
            .sum()
    }
}

/// Returns the activities, which have all external effects. Each prints what it does.
pub(crate) fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Reserve", |ctx: ActivityContext, sku: String| async move {
            if sku == "unicorn" {
                return Err(format!("{sku} is out of stock"));
            }
            println!("{}: reserves {sku}", ctx.instance_id());
            Ok(sku)
        })
        .register("Release", |ctx: ActivityContext, sku: String| async move {
            println!("{}: releases {sku}", ctx.instance_id());
            Ok(sku)
        })
        .register(
            "Charge",
            |ctx: ActivityContext, amount: String| async move {
                println!("{}: charges {amount}", ctx.instance_id());
                Ok(format!("receipt over {amount}"))
            },
        )
        .register(
            "Ship",
            |ctx: ActivityContext, customer: String| async move {
                println!("{}: ships to {customer}", ctx.instance_id());
                Ok(format!("parcel to {customer}"))
            },
        )
        .build()
}

/// Returns the orchestration.
pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            FULFIL,
            |ctx: OrchestrationContext, input: String| async move {
                let order: Order =
                    serde_json::from_str(&input).map_err(|error| error.to_string())?;
                fulfil(&ctx, &order).await
            },
        )
        .build()
}

async fn fulfil(ctx: &OrchestrationContext, order: &Order) -> Result<String, String> {
    ctx.set_custom_status("reserving");
    let reservations = ctx
        .join(
            order
                .items
                .iter()
                .map(|item| ctx.schedule_activity("Reserve", &*item.sku))
                .collect(),
        )
        .await;
    let (reserved, failed): (Vec<_>, Vec<_>) = reservations.into_iter().partition(Result::is_ok);
    let reserved: Vec<String> = reserved.into_iter().flatten().collect();
    if let Some(Err(reason)) = failed.into_iter().next() {
        return compensate(ctx, reserved, reason).await;
    }
    if order.cents() > APPROVAL_LIMIT_CENTS && !approved(ctx).await {
        return compensate(ctx, reserved, "not approved in time".to_owned()).await;
    }
    ctx.set_custom_status("charging");
    let amount = format!("{}.{:02} EUR", order.cents() / 100, order.cents() % 100);
    let receipt = ctx.schedule_activity("Charge", amount).await?;
    ctx.set_custom_status(PACKING);
    ctx.schedule_timer(PACKING_TIME).await;
    let parcel = ctx.schedule_activity("Ship", &*order.customer).await?;
    Ok(format!(
        "shipped: {parcel}, {receipt}, {} items",
        reserved.len()
    ))
}

/// Waits for the approval, up to a timeout. Returns whether it came.
async fn approved(ctx: &OrchestrationContext) -> bool {
    let approval = ctx.schedule_wait(APPROVAL);
    let timeout = ctx.schedule_timer(APPROVAL_TIMEOUT);
    ctx.set_custom_status(WAITING);
    ctx.select2(approval, timeout).await.is_first()
}

/// Releases the reservations. Returns the reason as an error.
async fn compensate(
    ctx: &OrchestrationContext,
    reserved: Vec<String>,
    reason: String,
) -> Result<String, String> {
    ctx.set_custom_status("releasing");
    let releases = reserved
        .into_iter()
        .map(|reservation| ctx.schedule_activity("Release", reservation))
        .collect();
    for release in ctx.join(releases).await {
        release?;
    }
    Err(format!("{reason}; all reserved items are released"))
}
