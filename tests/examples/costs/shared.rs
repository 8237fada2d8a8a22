//! Leases, outbox and inbox, and the work coordinator, on containers of their own.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::{Bootstrap, ConnectionString, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_coordination::messaging::MessagingConfig;
use cdb_coordination::{Leases, Message, MessageDocument, Messaging, Received};
use cdb_emulator::Emulator;
use cdb_provider::model::operation::Lease;
use cdb_provider::model::{Container, Document};
use cdb_work::{FlushStrategy as _, NewWork, Work, WorkConfig, WorkCoordinator};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::{Cost, Failure, Table, cost_of};

/// Repetitions of each measurement.
const TIMES: u32 = 20;
const IDLE: u32 = 12;

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{place}:order")]
struct Order {
    #[document(partition_key)]
    place: String,
    #[document(lease)]
    lease: Lease,
}

#[derive(Container)]
enum Shop {
    Order(Order),
    Message(MessageDocument<Shop>),
}

#[derive(Serialize, Deserialize)]
struct Placed;

impl Message for Placed {
    const TYPE: &'static str = "placed";
}

/// An account: the one that the environment names, or an emulator.
async fn account() -> Result<(Option<Emulator>, CosmosClient), Failure> {
    if let Ok(account) = ConnectionString::from_env() {
        return Ok((None, account.client()?.build()?));
    }
    let emulator = Emulator::start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    Ok((Some(emulator), client))
}

async fn container<C: Container>(client: &CosmosClient) -> Result<ContainerClient<C>, Failure> {
    let name = format!("costs-{}", uuid::Uuid::new_v4());
    let database = client.database("cdb-costs");
    let created = database.bootstrap(&name, Bootstrap::CreateIfMissing).await;
    Ok(created?)
}

pub(crate) async fn leases_and_messages(table: &mut Table) -> Result<(), Failure> {
    let (_emulator, client) = account().await?;
    let shop = container::<Shop>(&client).await?;
    leases(&shop, table).await?;
    messages(&shop, table).await?;
    shop.delete_container().await?;
    Ok(())
}

async fn leases(shop: &ContainerClient<Shop>, table: &mut Table) -> Result<(), Failure> {
    let (place, lease) = ("one".to_owned(), Lease::free());
    shop.run(Order { place, lease }.create()).await?;
    let leases = Leases::<_, Order>::new(shop, "costs");
    let key = OrderKey::new("one");
    let usage = || shop.usage();
    drop(leases.acquire(&key).await?.release().await);
    let taken = async {
        for _ in 0..TIMES {
            leases.acquire(&key).await?.release().await?;
        }
        Ok(())
    };
    let both = cost_of(usage, taken).await?.per(TIMES);
    table.row("a lease acquired by its key and released", both);
    let mut guard = leases.acquire(&key).await?;
    let renewed = async {
        for _ in 0..TIMES {
            guard.renew().await?;
        }
        Ok(())
    };
    let cost = cost_of(usage, renewed).await?;
    table.row("a lease renewed", cost.per(TIMES));
    guard.release().await?;
    Ok(())
}

async fn messages(shop: &ContainerClient<Shop>, table: &mut Table) -> Result<(), Failure> {
    let (arrive, mut arrived) = mpsc::unbounded_channel();
    let messaging = Messaging::builder(shop.clone())
        .config(MessagingConfig::default().with_poll_interval(Duration::from_secs(60)))
        .on(move |_: Received<Placed>, batch| {
            let arrive = arrive.clone();
            async move {
                arrive.send(())?;
                Ok(batch)
            }
        })
        .start()
        .expect("the durations fit");
    let mut send = async |count: u32| {
        for _ in 0..count {
            let mut batch = messaging.batch("one");
            batch.send("two", &Placed)?;
            messaging.commit(batch).await?;
            arrived.recv().await.ok_or("the messaging has ended")?;
        }
        Ok::<(), Failure>(())
    };
    send(1).await?; // creates the stream's numbers
    let usage = || shop.usage();
    let cost = cost_of(usage, send(TIMES)).await?;
    table.row(
        "an outbox message, to the end of its handler",
        cost.per(TIMES),
    );
    messaging.stop().await;
    let idle = Messaging::builder(shop.clone())
        .start()
        .expect("the durations fit");
    table.row("idle messaging, a second", watch(shop).await);
    idle.stop().await;
    Ok(())
}

async fn watch<C: Container>(container: &ContainerClient<C>) -> Cost {
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = container.usage();
    tokio::time::sleep(Duration::from_secs(IDLE.into())).await;
    Cost::between(&before, &container.usage()).per(IDLE)
}

pub(crate) async fn work(table: &mut Table) -> Result<(), Failure> {
    let (_emulator, client) = account().await?;
    let container = container::<Work>(&client).await?;
    let all = Arc::new(InMemoryLeaseProvider::all());
    let work = WorkCoordinator::open(container.clone(), all, WorkConfig::default()).await?;
    let idle = watch(&container).await;
    table.row("an idle work coordinator, a second", idle);
    one_by_one(&work, 1).await?; // creates the stream
    let begun = tokio::time::Instant::now();
    let before = container.usage();
    one_by_one(&work, TIMES).await?;
    let cost = Cost::between(&before, &container.usage());
    eprintln!("{TIMES} messages in {:?}", begun.elapsed());
    table.row(
        "a message of the coordinator, written at once",
        cost.per(TIMES),
    );
    let before = container.usage();
    together(&work, TIMES).await?;
    let cost = Cost::between(&before, &container.usage());
    table.row("the same, 20 at a time", cost.per(TIMES));
    work.shutdown().await?;
    container.delete_container().await?;
    Ok(())
}

async fn one_by_one(work: &WorkCoordinator, count: u32) -> Result<(), Failure> {
    let now = work.immediate();
    for _ in 0..count {
        let id = uuid::Uuid::new_v4().to_string();
        now.store(NewWork::inbox("order-7", id)).await?;
        for claimed in work.claim(1, Duration::from_secs(5)).await {
            now.report(claimed.done()).await?;
        }
    }
    Ok(())
}

/// All messages of a stream stored by one batch, and their ends by another.
async fn together(work: &WorkCoordinator, count: u32) -> Result<(), Failure> {
    let inbox = work.scoped();
    for _ in 0..count {
        let id = uuid::Uuid::new_v4().to_string();
        inbox.store(NewWork::inbox("order-7", id)).await;
    }
    inbox.commit().await?;
    let ends = work.scoped();
    let mut open = count;
    while open > 0 {
        for claimed in work.claim(20, Duration::from_secs(5)).await {
            ends.report(claimed.done()).await;
            open -= 1;
        }
    }
    ends.commit().await?;
    Ok(())
}
