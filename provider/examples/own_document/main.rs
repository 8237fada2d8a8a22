//! A document type of its own beside duroxide's, in one container and under one indexing policy.
//!
//! `cargo run -p cdb-provider --example own_document` runs it on the embedded emulator; `cargo run
//! -p cdb-provider --example own_document -- policy [file]` prints or writes the container's
//! policy.

mod shop;

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::client::ContainerClient;
use cdb_provider::documents::Durable;
use cdb_provider::model::query::Explain as _;
use cdb_provider::model::{Batch, Container, Document as _, Query};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use shop::{Order, OrderLine, OrderState, Shop};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("policy") {
        return print_policy(arguments.next());
    }
    let emulator = Emulator::start().await?;
    let config = CosmosDBProviderConfig::from_env_or(&emulator.connection_string())?;
    // Created with the policy of duroxide's documents and the shop's.
    let (provider, shop) = CosmosDBProvider::open::<Shop>(config).await?;
    let provider = Arc::new(provider);

    let runtime =
        Runtime::start_with_store(provider.clone(), activities(shop.clone()), orchestrations())
            .await;
    let client = Client::new(provider);
    for customer in ["Ada", "Grace"] {
        client
            .start_orchestration(&format!("checkout-{customer}"), "Checkout", customer)
            .await?;
    }
    for customer in ["Ada", "Grace"] {
        let instance = format!("checkout-{customer}");
        client
            .wait_for_orchestration(&instance, Duration::from_secs(300))
            .await?;
    }

    // Served by the composite index of `Order`. An unindexed field would not compile here.
    let open = Query::<Order>::across_partitions()
        .filter(Order::STATE.eq(OrderState::Open))
        .order_by(Order::BY_TOTAL.reversed());
    print!("{}", open.explain(Shop::definition().indexing_policy()));
    for order in shop.query(open).all().await? {
        println!(
            "{} ordered for {} cents",
            order.document.customer, order.document.total_cents
        );
    }
    // All documents of one checkout, duroxide's and the shop's, in one request.
    let (mut lines, mut events) = (0, 0);
    for row in shop
        .query(Query::<Shop>::in_partition("checkout-Ada"))
        .all()
        .await?
    {
        match row.document {
            Shop::Order(order) => println!("{}: {:?}", row.id, order.state),
            Shop::OrderLine(line) => lines += usize::from(line.cents > 0),
            Shop::Durable(Durable::History(segment)) => events += segment.event_count,
            Shop::Durable(_) => {}
        }
    }
    println!("with {lines} lines and {events} events of its orchestration");
    runtime.shutdown(None).await;
    Ok(())
}

fn activities(shop: ContainerClient<Shop>) -> ActivityRegistry {
    ActivityRegistry::builder()
        .register(
            "PlaceOrder",
            move |ctx: ActivityContext, customer: String| {
                let shop = shop.clone();
                async move {
                    place_order(&shop, ctx.instance_id(), &customer)
                        .await
                        .map_err(|error| error.to_string())
                }
            },
        )
        .build()
}

/// Writes the order and its lines in one atomic batch. An activity can run twice, so the documents
/// are upserted under ids derived from the instance.
async fn place_order(
    shop: &ContainerClient<Shop>,
    instance_id: &str,
    customer: &str,
) -> Result<String, Failure> {
    let lines: Vec<_> = [("keyboard", 8_900), ("cable", 900)]
        .into_iter()
        .zip(1..)
        .map(|((sku, cents), line)| OrderLine {
            instance_id: instance_id.to_owned(),
            line,
            sku: sku.to_owned(),
            cents: cents * u64::try_from(customer.len()).unwrap_or(1),
        })
        .collect();
    let order = Order {
        instance_id: instance_id.to_owned(),
        customer: customer.to_owned(),
        state: OrderState::Open,
        total_cents: lines.iter().map(|line| line.cents).sum(),
        remark: None,
    };
    let mut batch = Batch::<Shop>::new(instance_id);
    batch.add(order.upsert())?;
    for line in &lines {
        batch.add(line.upsert())?;
    }
    shop.execute(&batch).await?;
    Ok(format!("{customer}: {} lines", lines.len()))
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Checkout",
            |ctx: OrchestrationContext, customer: String| async move {
                ctx.schedule_activity("PlaceOrder", customer).await
            },
        )
        .build()
}

fn print_policy(file: Option<String>) -> Result<(), Failure> {
    let policy = Shop::definition().indexing_policy().to_json_pretty();
    match file {
        Some(file) => std::fs::write(file, policy + "\n")?,
        None => println!("{policy}"),
    }
    Ok(())
}
