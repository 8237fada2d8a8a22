//! Runs orders from a file as orchestrations on the embedded emulator, and kills their runtime when
//! all of them wait for something. Another runtime continues where they were.
//!
//! Each order reserves its items in parallel, waits for an approval if it is large, charges the
//! customer, and waits for a packing timer before it ships. After a failure or a missing
//! approval, the reservations are released.
//!
//! `cargo demo`, or `cargo demo orders.json`. With `COSMOS_ENDPOINT` and `COSMOS_KEY` set it runs on
//! that account instead. With `CDB_RECORD=folder` all calls are recorded there, for `cargo xtask judge`.

mod process;
mod report;
mod workflow;

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::OrchestrationStatus;
use duroxide::{Client, ErrorDetails};
use process::RuntimeProcess;
use report::Report;
use workflow::{APPROVAL, FULFIL, Order, PACKING, WAITING};

type Failure = Box<dyn std::error::Error>;

const ORDERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/orders.json");
const DEADLINE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    dotenvy::dotenv().ok(); // variables of a file `.env`
    match process::emulator_of_parent() {
        Some(emulator) => process::run(&emulator).await,
        None => lead().await,
    }
}

async fn lead() -> Result<(), Failure> {
    let path = std::env::args().nth(1).unwrap_or_else(|| ORDERS.to_owned());
    let orders = read_orders(&path)?;
    let service = Emulator::start().await?; // until the end of this function
    let emulator = service.connection_string();
    let config = CosmosDBProviderConfig::from_env_or(&emulator)?;
    println!("orders on the account {}\n", config.endpoint);
    let provider = CosmosDBProvider::new_with_config(config).await?;
    let client = Client::new(process::recorded(provider, "client")?);

    let report = Arc::new(Report::new());
    let instances = start(&client, &orders, &report).await?;

    let mut first = RuntimeProcess::spawn(1, &emulator, &report)?;
    let mut waiting = Vec::new();
    for instance in &instances {
        let state = first.or_end(at_rest(&client, instance)).await?;
        report.line(&format!("{instance}: {state}"));
        if state == WAITING {
            waiting.push(instance);
        }
    }
    first.kill().await?;
    report.line("runtime 1 killed: what it knew is lost, what it stored is not\n");

    let mut second = RuntimeProcess::spawn(2, &emulator, &report)?;
    // The other orders that wait are never approved.
    if let Some(instance) = waiting.first() {
        let approved = client.raise_event(instance.as_str(), APPROVAL, "Margaret");
        approved.await?;
        report.line(&format!("{instance}: approved by Margaret"));
    }
    for instance in &instances {
        let ended = client.wait_for_orchestration(instance, DEADLINE);
        let status = second.or_end(async { Ok(ended.await?) }).await?;
        report.line(&format!("{instance}: {}", outcome(status)));
    }
    second.kill().await?;
    println!("\n{}", report.summary(orders.len()));
    println!("an emulator that stays, with a page that shows what is stored:");
    println!("next: cargo run -p cdb-cli -- emulator");
    Ok(())
}

/// Starts an orchestration per order. Returns their instance ids.
async fn start(client: &Client, orders: &[Order], report: &Report) -> Result<Vec<String>, Failure> {
    let suffix = unused_suffix(client, &orders[0].id).await?;
    let mut instances = Vec::new();
    for order in orders {
        let instance = format!("{}{suffix}", order.id);
        let input = serde_json::to_string(order)?;
        client.start_orchestration(&instance, FULFIL, input).await?;
        report.line(&format!("{instance}: started for {}", order.customer));
        instances.push(instance);
    }
    Ok(instances)
}

/// Finds a suffix for the ids of this run. Instance ids are never reused, so the second run on an
/// account appends `-2`.
async fn unused_suffix(client: &Client, order: &str) -> Result<String, Failure> {
    let mut suffix = String::new();
    for run in 2.. {
        let instance = format!("{order}{suffix}");
        let status = client.get_orchestration_status(&instance).await?;
        if matches!(status, OrchestrationStatus::NotFound) {
            break;
        }
        suffix = format!("-{run}");
    }
    Ok(suffix)
}

/// Waits until an order waits for its approval or for packing, or has ended. Returns its state.
async fn at_rest(client: &Client, instance: &str) -> Result<String, Failure> {
    let mut seen = 0;
    loop {
        let status = client.wait_for_status_change(instance, seen, POLL, DEADLINE);
        match status.await? {
            OrchestrationStatus::Running {
                custom_status,
                custom_status_version,
            } => {
                seen = custom_status_version;
                if let Some(state) = custom_status
                    && [WAITING, PACKING].contains(&&*state)
                {
                    return Ok(state);
                }
            }
            ended => return Ok(outcome(ended)),
        }
    }
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
