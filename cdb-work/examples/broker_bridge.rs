//! A broker in this process delivers orders. A handler completes them and answers, and a bridge
//! publishes the answers to the broker.
//!
//!     cargo run -p cdb-work --example broker_bridge

use std::sync::Arc;

use async_trait::async_trait;
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_coordination::{HandlerError, Message};
use cdb_emulator::Emulator;
use cdb_work::{
    Broker, Lane, NewWork, RunConfig, Work, WorkConfig, WorkContext, WorkCoordinator, WorkHandlers,
    WorkMessage,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, mpsc};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Serialize, Deserialize)]
struct Ordered {
    article: String,
}

impl Message for Ordered {
    const TYPE: &'static str = "ordered";
}

/// A message of the broker.
struct Delivery {
    number: u64,
    order: String,
    article: String,
}

/// The broker: two channels. It acknowledges by counting.
struct Channels {
    deliveries: Mutex<mpsc::UnboundedReceiver<Delivery>>,
    published: mpsc::UnboundedSender<String>,
}

#[async_trait]
impl Broker for Channels {
    type Delivery = u64;

    async fn publish(&self, message: &WorkMessage) -> Result<(), HandlerError> {
        Ok(self
            .published
            .send(format!("{}: {}", message.stream, message.body))?)
    }

    async fn receive(&self) -> Result<Option<(NewWork, u64)>, HandlerError> {
        let Some(delivery) = self.deliveries.lock().await.recv().await else {
            return Ok(None);
        };
        let ordered = Ordered {
            article: delivery.article,
        };
        // The order is the stream. The broker's number detects a second delivery.
        let work = NewWork::inbox(delivery.order, delivery.number.to_string());
        Ok(Some((work.with_message(&ordered)?, delivery.number)))
    }

    async fn acknowledge(&self, number: u64) -> Result<(), HandlerError> {
        println!("delivery {number} is stored");
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // An embedded emulator instead of an account.
    let emulator = Emulator::start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let container: ContainerClient<Work> = client
        .database("shop")
        .bootstrap("work", Bootstrap::CreateIfMissing)
        .await?;
    let alone = Arc::new(InMemoryLeaseProvider::all());
    let work = WorkCoordinator::open(container, alone, WorkConfig::default()).await?;

    let (deliver, deliveries) = mpsc::unbounded_channel();
    let (published, mut answers) = mpsc::unbounded_channel();
    let broker = Arc::new(Channels {
        deliveries: Mutex::new(deliveries),
        published,
    });
    let bridge = work.bridge(RunConfig::default(), broker);
    let inbox = work.run(RunConfig::default().with_lane(Lane::Inbox), handlers(&work));

    // The second delivery of number 2 is dropped.
    for (number, order) in [
        (1, "order-7"),
        (2, "order-8"),
        (2, "order-8"),
        (3, "order-7"),
    ] {
        deliver.send(Delivery {
            number,
            order: order.to_owned(),
            article: format!("article {number}"),
        })?;
    }
    for _ in 0..3 {
        println!(
            "published {}",
            answers.recv().await.ok_or("the bridge has ended")?
        );
    }
    inbox.stop().await?;
    bridge.stop().await?;
    work.shutdown().await?;
    Ok(())
}

/// Answers every order in the outbox. The id of the answer detects that a retry stores it again.
fn handlers(work: &WorkCoordinator) -> WorkHandlers {
    let work = work.clone();
    WorkHandlers::new()
        .on(move |ordered: Ordered, context: WorkContext| {
            let outbox = work.immediate();
            async move {
                let order = context.message();
                let answer = NewWork::outbox(&order.stream, &order.message_id);
                let answer = answer.with_body("packed", format!("{} is packed", ordered.article));
                outbox.store(answer).await?;
                Ok(context.done())
            }
        })
        .on_failure(|failure| eprintln!("{}: {}", failure.message.message_id, failure.reason))
}
