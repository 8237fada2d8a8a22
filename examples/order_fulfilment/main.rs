//! Runs orders from a file as orchestrations on the embedded emulator.
//!
//! Each order reserves its items in parallel, waits for an approval if it is large, charges the
//! customer, and waits for a short packing timer before it ships. After a failure or a missing
//! approval, the reservations are released.
//!
//! `cargo run -p cdb-demo [orders.json]`. With `COSMOS_ENDPOINT` and
//! `COSMOS_KEY` set it runs on that account instead.

mod workflow;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{Client, ErrorDetails};
use workflow::{APPROVAL, FULFIL, Order, WAITING};

type Failure = Box<dyn std::error::Error>;

const ORDERS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/orders.json"
);
const DEADLINE: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).unwrap_or_else(|| ORDERS.to_owned());
    let orders = read_orders(&path)?;
    let emulator = Emulator::start().await?;
    dotenvy::dotenv().ok(); // variables of a file `.env`
    let config = CosmosDBProviderConfig::from_env_or(&emulator.connection_string())?;
    println!("account {}", config.endpoint);
    let store = Arc::new(CosmosDBProvider::new_with_config(config).await?);

    let started = Instant::now();
    let runtime = Runtime::start_with_store(
        store.clone(),
        workflow::activities(),
        workflow::orchestrations(),
    )
    .await;
    let client = Client::new(store.clone());

    // Instance ids are never reused, so each run against an account needs new ones.
    let run = std::time::UNIX_EPOCH.elapsed()?.as_millis();
    let mut instances = Vec::new();
    for order in &orders {
        let instance = format!("{}/{run}", order.id);
        let input = serde_json::to_string(order)?;
        client.start_orchestration(&instance, FULFIL, input).await?;
        println!(
            "{:>6} ms  {instance} started for {}",
            started.elapsed().as_millis(),
            order.customer
        );
        instances.push(instance);
    }
    // The second order is approved as soon as it asks. The last one times out.
    if let Some(instance) = instances.get(1) {
        approve(&client, instance).await?;
        println!(
            "{:>6} ms  {instance} approved",
            started.elapsed().as_millis()
        );
    }

    for instance in &instances {
        let status = client.wait_for_orchestration(instance, DEADLINE).await?;
        println!(
            "{:>6} ms  {instance} {}",
            started.elapsed().as_millis(),
            outcome(status)
        );
    }
    let used = store.container().usage().total();
    println!(
        "{} orders in {:.1} s, {} requests, {:.0} RU",
        orders.len(),
        started.elapsed().as_secs_f64(),
        used.requests,
        used.charge
    );
    runtime.shutdown(None).await;
    Ok(())
}

/// Waits until the order asks for approval, and approves it.
async fn approve(client: &Client, instance: &str) -> Result<(), Failure> {
    let mut seen = 0;
    loop {
        let poll = Duration::from_millis(20);
        let status = client
            .wait_for_status_change(instance, seen, poll, DEADLINE)
            .await?;
        match status {
            OrchestrationStatus::Running {
                custom_status,
                custom_status_version,
            } => {
                seen = custom_status_version;
                if custom_status.as_deref() == Some(WAITING) {
                    break;
                }
            }
            // An order that needs no approval, or that failed before it could ask.
            _ => return Ok(()),
        }
    }
    Ok(client.raise_event(instance, APPROVAL, "Margaret").await?)
}

fn read_orders(path: &str) -> Result<Vec<Order>, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let orders: Vec<Order> = serde_json::from_str(&text)
        .map_err(|error| format!("{path} is not a list of orders: {error}"))?;
    if orders.is_empty() {
        return Err(format!("{path} holds no orders").into());
    }
    Ok(orders)
}

fn outcome(status: OrchestrationStatus) -> String {
    match status {
        OrchestrationStatus::Completed { output, .. } => output,
        OrchestrationStatus::Failed {
            details: ErrorDetails::Application { message, .. },
            ..
        } => format!("failed: {message}"),
        OrchestrationStatus::Failed { details, .. } => {
            format!("failed: {}", details.display_message())
        }
        OrchestrationStatus::Running { .. } => "still running".to_owned(),
        OrchestrationStatus::NotFound => "unknown".to_owned(),
    }
}
