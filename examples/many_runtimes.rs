//! Several runtimes on one container, each a process; one of them is killed in the middle, and
//! nothing is lost.
//!
//! The runtimes share the dispatch slots by membership: each polls for its part, and the others
//! take the part of a dead runtime three heartbeats later. Membership only spreads load;
//! conditional writes prevent two runtimes from running the same turn.
//!
//! `cargo run -p cdb-examples --bin many_runtimes`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_emulator::Emulator;
use cdb_provider::coordination::membership::MembershipConfig;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::process::{Child, Command};

type Failure = Box<dyn std::error::Error>;

const ORDERS: usize = 120;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match std::env::args().nth(1) {
        Some(name) => work(name).await,
        None => lead().await,
    }
}

/// Opens the emulator that the first process has started.
async fn open(name: &str) -> Result<Arc<CosmosDBProvider>, Failure> {
    let mut membership = MembershipConfig::named(name);
    membership.heartbeat = Duration::from_millis(500);
    let config = CosmosDBProviderConfig {
        membership: (name != "client").then_some(membership),
        ..CosmosDBProviderConfig::from_env()?
    };
    Ok(Arc::new(CosmosDBProvider::new_with_config(config).await?))
}

/// Runs a runtime until the process is killed.
async fn work(name: String) -> Result<(), Failure> {
    let store = open(&name).await?;
    let activities =
        ActivityRegistry::builder().register("Pack", move |_: ActivityContext, _: String| {
            let name = name.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(30)).await;
                Ok(name)
            }
        });
    let orchestrations = OrchestrationRegistry::builder().register(
        "Order",
        |ctx: OrchestrationContext, order: String| async move {
            let first = ctx.schedule_activity("Pack", order.clone()).await?;
            ctx.schedule_timer(Duration::from_millis(200)).await;
            let second = ctx.schedule_activity("Pack", order).await?;
            Ok(format!("{first} {second}"))
        },
    );
    let options = RuntimeOptions {
        // How long the other runtimes wait for the activities of a killed one.
        worker_lock_timeout: Duration::from_secs(3),
        ..RuntimeOptions::default()
    };
    let (activities, orchestrations) = (activities.build(), orchestrations.build());
    let _runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    std::future::pending().await
}

async fn lead() -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    let mut workers = Vec::new();
    for name in ["north", "east", "south"] {
        workers.push(spawn(name, &emulator)?);
    }
    let config = CosmosDBProviderConfig {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        ..CosmosDBProviderConfig::default()
    };
    let client = Client::new(Arc::new(CosmosDBProvider::new_with_config(config).await?));
    let begun = Instant::now();
    for order in 0..ORDERS {
        let instance = format!("order-{order}");
        client.start_orchestration(&instance, "Order", "").await?;
    }
    println!("{ORDERS} orders started for three runtimes");
    tokio::time::sleep(Duration::from_millis(300)).await;
    if let Some(mut killed) = workers.pop() {
        killed.kill().await?;
        println!(
            "one of them killed after {} ms",
            begun.elapsed().as_millis()
        );
    }
    let mut packed: BTreeMap<String, usize> = BTreeMap::new();
    for order in 0..ORDERS {
        let instance = format!("order-{order}");
        let status = client
            .wait_for_orchestration(&instance, Duration::from_secs(300))
            .await?;
        let OrchestrationStatus::Completed { output, .. } = status else {
            return Err(format!("{instance} did not complete: {status:?}").into());
        };
        for name in output.split(' ') {
            *packed.entry(name.to_owned()).or_default() += 1;
        }
    }
    println!(
        "all completed after {} ms, packed by {packed:?}",
        begun.elapsed().as_millis()
    );
    Ok(())
}

/// Starts this program again as a runtime, which is killed with this process.
fn spawn(name: &str, emulator: &Emulator) -> Result<Child, Failure> {
    let child = Command::new(std::env::current_exe()?)
        .arg(name)
        .env("COSMOS_ENDPOINT", emulator.endpoint())
        .env("COSMOS_KEY", emulator.key())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}
