//! Orchestrations, documents of your own and messages between partitions, in one container.
//!
//! An orchestration places an order. The batch that stores the order also sends a message to the
//! partition of the stock, so the order and the message are stored together or not at all. The
//! message takes effect once.
//!
//! `cargo run -p cdb-examples --bin one_container`

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::coordination::{
    HandlerError, Message, MessageDocument, Messaging, OutboxBatch, Received,
};
use cdb_provider::documents::Durable;
use cdb_provider::model::{Container, Document, Query};
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
    article: String,
}

/// The reservation for an order, in the partition of the stock.
#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "reservation", id = "{instance_id}:for:{order}")]
struct Reservation {
    #[document(partition_key)]
    instance_id: String,
    order: String,
    #[document(index)]
    article: String,
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
    Reservation(Reservation),
    Message(MessageDocument<Shop>), // outbox, inbox and dead letters
}

/// To the stock: reserve an article.
#[derive(Serialize, Deserialize)]
struct Reserve {
    order: String,
    article: String,
}

impl Message for Reserve {
    const TYPE: &'static str = "reserve";
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    let config = CosmosDBProviderConfig::from_env_or(&emulator.connection_string())?;
    let (provider, shop) = CosmosDBProvider::open::<Shop>(config).await?;
    let provider = Arc::new(provider);
    let messaging = Messaging::builder(shop.clone()).on(reserve).start()?;
    let activities = activities(messaging.clone());
    let runtime = Runtime::start_with_store(provider.clone(), activities, orchestrations()).await;

    // An instance id can be used once, so a second run on an account needs another id.
    let instance = format!("order-{}", std::process::id());
    let client = Client::new(provider);
    let article = "lamp";
    client
        .start_orchestration(&instance, "Checkout", article)
        .await?;
    client
        .wait_for_orchestration(&instance, Duration::from_secs(300))
        .await?;

    let reservations =
        || Query::<Reservation>::in_partition(STOCK).filter(Reservation::ARTICLE.eq(article));
    let reservation = loop {
        if let Some(found) = shop.query(reservations()).first().await? {
            break found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    println!(
        "a {} is reserved for {}",
        reservation.article, reservation.order
    );
    runtime.shutdown(None).await;
    messaging.stop().await;
    Ok(())
}

/// Receives a message. The reservation is committed together with the receipt, so a message that is
/// delivered twice reserves once.
async fn reserve(
    reserve: Received<Reserve>,
    mut batch: OutboxBatch<Shop>,
) -> Result<OutboxBatch<Shop>, HandlerError> {
    batch.changes().add(
        Reservation {
            instance_id: STOCK.to_owned(),
            order: reserve.message.order,
            article: reserve.message.article,
        }
        .create(),
    )?;
    Ok(batch)
}

/// Stores the order and sends the message, in one batch. An activity can run twice, so the batch is
/// committed under an id: the second run changes nothing.
async fn place(messaging: &Messaging<Shop>, order: Order) -> Result<String, Failure> {
    let id = order.instance_id.clone();
    let mut batch = messaging.batch(id.as_str());
    batch.changes().add(order.create())?;
    let article = order.article;
    batch.send(
        STOCK,
        &Reserve {
            order: id.clone(),
            article,
        },
    )?;
    Ok(messaging.commit_once(batch, "place", id).await?)
}

fn activities(messaging: Messaging<Shop>) -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Place", move |ctx: ActivityContext, article: String| {
            let messaging = messaging.clone();
            async move {
                let instance_id = ctx.instance_id().to_owned();
                let placed = place(
                    &messaging,
                    Order {
                        instance_id,
                        article,
                    },
                )
                .await;
                placed.map_err(|error| error.to_string())
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Checkout",
            |ctx: OrchestrationContext, article: String| async move {
                ctx.schedule_activity("Place", article).await
            },
        )
        .build()
}
