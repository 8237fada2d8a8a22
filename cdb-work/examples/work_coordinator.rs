//! Orders arrive as messages. The messages of an order are handled one after the other, by the
//! coordinator that holds its partition. The order's state changes in the batch that completes the
//! message.
//!
//!     cargo run -p cdb-work --example work_coordinator

use std::sync::Arc;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::Membership;
use cdb_coordination::membership::MembershipConfig;
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Query};
use cdb_work::{
    ClaimedWork, FlushStrategy, IntervalConfig, NewWork, Work, WorkConfig, WorkCoordinator,
    WorkMember,
};
use serde::{Deserialize, Serialize};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The state of an order, in the partition of its messages, so that one batch can write both.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "order", id = "{partition}:order:{number}")]
struct Order {
    #[document(partition_key)]
    partition: String,
    number: String,
    history: Vec<String>,
}

#[derive(Container, Clone, Debug)]
enum Shop {
    #[container(extends)]
    Work(Work),
    Order(Order),
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // An embedded emulator instead of an account.
    let emulator = Emulator::start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let shop: ContainerClient<Shop> = client
        .database("shop")
        .bootstrap("work", Bootstrap::CreateIfMissing)
        .await?;

    // Usually two processes. They share the virtual partitions by membership.
    let (left, right) = tokio::try_join!(coordinator(&shop, "left"), coordinator(&shop, "right"))?;
    let workers = [&left, &right].map(|work| tokio::spawn(work_on(work.clone(), shop.clone())));

    // Messages arrive, some of them twice. One request per partition stores them all.
    let inbox = left.scoped();
    for number in 1..=6 {
        for event in ["placed", "paid", "paid", "sent"] {
            let order = format!("order-{number}");
            let message = NewWork::inbox(order, event).with_body("event", event);
            inbox.store(message).await;
        }
    }
    inbox.commit().await?;

    for worker in workers {
        worker.await??;
    }
    let query = Query::<Order>::across_partitions();
    let mut orders = shop.query(query).all().await?;
    orders.sort_by(|one, other| one.document.number.cmp(&other.document.number));
    for order in orders {
        let Order {
            number, history, ..
        } = order.document;
        println!("{number}: {}", history.join(", "));
    }
    left.shutdown().await?;
    right.shutdown().await?;
    Ok(())
}

async fn coordinator(shop: &ContainerClient<Shop>, name: &str) -> Result<WorkCoordinator, Failure> {
    let container = shop.view::<Work>();
    let mut roster = MembershipConfig::named(name);
    roster.heartbeat = Duration::from_millis(300);
    let membership = Membership::start::<WorkMember, Work>(container.clone(), roster);
    // Wait for the roster: a coordinator that is not on it yet would take every partition and
    // release half of them again.
    let mut views = membership.watch();
    views.wait_for(|view| view.members().len() == 2).await?;
    let config = WorkConfig::default().with_upkeep(Duration::from_millis(200));
    Ok(WorkCoordinator::open(container, Arc::new(membership), config).await?)
}

/// Works until no message has arrived for a while.
async fn work_on(work: WorkCoordinator, shop: ContainerClient<Shop>) -> Result<(), Failure> {
    // Writes reports every 100 ms. The next message of an order does not wait for that.
    let ends = work.interval(IntervalConfig::every(Duration::from_millis(100)));
    loop {
        let claimed = work.claim(20, Duration::from_secs(3)).await;
        if claimed.is_empty() {
            return Ok(ends.close().await?);
        }
        for message in claimed {
            handle(&shop, message, &ends).await?;
        }
    }
}

/// Adds the event to its order, together with the completion of the message.
async fn handle(
    shop: &ContainerClient<Shop>,
    claimed: ClaimedWork,
    ends: &dyn FlushStrategy,
) -> Result<(), Failure> {
    let message = claimed.message().clone();
    let key = OrderKey::new(&*message.partition, &*message.stream);
    let mut order = match shop.read(&key).await? {
        Some(stored) => stored.document,
        None => Order {
            partition: message.partition,
            number: message.stream,
            history: Vec::new(),
        },
    };
    order.history.push(message.body);
    let mut effects = claimed.effects::<Shop>();
    effects.add(order.upsert())?;
    let report = claimed.done().with_effects(&effects)?;
    // The next message reads this write, so it waits. A program with its state in memory need not
    // wait.
    ends.report(report).await.settled().await?;
    Ok(())
}
