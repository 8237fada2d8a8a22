//! A transactional activity: a receipt, the state of an order and a message to the stock are stored
//! with the end of the activity, in one batch.
//!
//! `cargo run -p cdb-examples --bin transactional`

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::client::ContainerClient;
use cdb_provider::coordination::{
    HandlerError, Message, MessageDocument, Messaging, OutboxBatch, Received,
};
use cdb_provider::documents::Durable;
use cdb_provider::model::{Container, Document, Patch};
use cdb_provider::{ActivityError, Effects, WithMessages};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The partition of the stock.
const STOCK: &str = "stock";

/// An order, in the partition of its orchestration.
#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{instance_id}:order")]
struct Order {
    #[document(partition_key)]
    instance_id: String,
    #[document(index)]
    state: String,
    cents: u64,
}

/// The receipt of an order, in the same partition.
#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "receipt", id = "{instance_id}:receipt")]
struct Receipt {
    #[document(partition_key)]
    instance_id: String,
    cents: u64,
}

/// A shelf of the stock, in a partition of its own.
#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "shelf", id = "{instance_id}:shelf")]
struct Shelf {
    #[document(partition_key)]
    instance_id: String,
    lamps: i64,
}

#[derive(Container)]
#[expect(
    clippy::large_enum_variant,
    reason = "a document is read and used at once"
)]
enum Shop {
    #[container(extends)]
    Durable(Durable), // instances, histories and queues of duroxide
    Order(Order),
    Receipt(Receipt),
    Shelf(Shelf),
    Message(MessageDocument<Shop>), // outbox, inbox and dead letters
}

/// To the stock: take lamps from the shelf.
#[derive(Serialize, Deserialize)]
struct Take {
    lamps: i64,
}

impl Message for Take {
    const TYPE: &'static str = "take";
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    let config = CosmosDBProviderConfig::from_env_or(&emulator.connection_string())?;
    let (provider, shop) = CosmosDBProvider::open::<Shop>(config).await?;
    let messaging = Messaging::builder(shop.clone()).on(take).start()?;
    let activities = ActivityRegistry::builder()
        .register("Place", provider.transactional(&shop, place))
        .register("Charge", provider.transactional_with(&messaging, charge))
        .build();
    let provider = Arc::new(provider);
    let runtime = Runtime::start_with_store(provider.clone(), activities, orchestrations()).await;

    let full = Shelf {
        instance_id: STOCK.to_owned(),
        lamps: 10,
    };
    shop.run(full.upsert()).await?;
    // An instance id can be used once, so a second run on an account needs another id.
    let instance = format!("order-{}", std::process::id());
    let client = Client::new(provider);
    client
        .start_orchestration(&instance, "Checkout", "4200")
        .await?;
    client
        .wait_for_orchestration(&instance, Duration::from_secs(300))
        .await?;

    let order = shop.read(&OrderKey::new(&*instance)).await?;
    let receipt = shop.read(&ReceiptKey::new(&*instance)).await?;
    let (order, receipt) = (order.ok_or("no order")?, receipt.ok_or("no receipt")?);
    println!(
        "the order is {}, the receipt shows {} cents",
        order.document.state, receipt.document.cents
    );
    println!("the shelf has {} lamps left", lamps_left(&shop).await?);
    runtime.shutdown(None).await;
    messaging.stop().await;
    Ok(())
}

/// Creates the order.
async fn place(
    ctx: ActivityContext,
    tx: Effects<Shop>,
    cents: u64,
) -> Result<String, ActivityError> {
    tx.add(
        Order {
            instance_id: ctx.instance_id().to_owned(),
            state: "open".to_owned(),
            cents,
        }
        .create(),
    )?;
    Ok("open".to_owned())
}

/// Charges the order. If the order has changed since it was read, the function runs again.
async fn charge(
    ctx: ActivityContext,
    tx: Effects<Shop, WithMessages>,
    lamps: i64,
) -> Result<String, ActivityError> {
    let instance_id = ctx.instance_id().to_owned();
    let order = tx.read(&OrderKey::new(&*instance_id)).await?;
    let order = order.ok_or("there is no order")?;
    if order.document.state != "open" {
        return Err(format!("the order is {}", order.document.state).into());
    }
    let cents = order.document.cents;
    tx.add(order.patch().set(Order::STATE, "paid"))?;
    tx.add(Receipt { instance_id, cents }.create())?;
    tx.send(STOCK, &Take { lamps })?;
    Ok("paid".to_owned())
}

/// Receives a message. It takes effect once, however often the activity has run.
async fn take(
    take: Received<Take>,
    mut batch: OutboxBatch<Shop>,
) -> Result<OutboxBatch<Shop>, HandlerError> {
    let fewer = Patch::new().incr(Shelf::LAMPS, -take.message.lamps);
    batch.changes().add(fewer.at(&ShelfKey::new(STOCK)))?;
    Ok(batch)
}

/// Waits for the message.
async fn lamps_left(shop: &ContainerClient<Shop>) -> Result<i64, Failure> {
    loop {
        let shelf = shop.read(&ShelfKey::new(STOCK)).await?.ok_or("no shelf")?;
        if shelf.document.lamps < 10 {
            return Ok(shelf.document.lamps);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Checkout",
            |ctx: OrchestrationContext, cents: String| async move {
                ctx.schedule_activity("Place", cents).await?;
                ctx.schedule_activity("Charge", "2").await
            },
        )
        .build()
}
