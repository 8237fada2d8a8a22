//! Our runtime and one of `duroxide-cdb` on one container: `side_by_side <leave-state> [open]`, see
//! tests/upgrade/README.md.
//!
//! The old runtime starts first, ours joins, and the old one continues. Prints how the
//! orchestrations ended. `open` removes the gate that stops older runtimes, to show its effect.

#[path = "../upgrade/raw_container.rs"]
#[expect(dead_code, reason = "only its emulator is needed")]
mod raw_container;
#[path = "../upgrade/workload.rs"]
#[expect(dead_code, reason = "the old runtime's process leaves the work")]
mod workload;

use std::collections::BTreeMap;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use cdb_provider::documents::{OrchestratorItem, SCHEMA_PARTITION, WorkerItem};
use cdb_provider::model::Query;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationStatus};

const INSTANCES: usize = 100;

/// Ends with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(program) = arguments.first() else {
        eprintln!("side_by_side <leave-state> [open]");
        return ExitCode::FAILURE;
    };
    let emulator = raw_container::emulator().start().await;
    let emulator = emulator.expect("the emulator starts");
    let old = Command::new(program)
        .args([&*emulator.endpoint(), emulator.key(), "join"])
        .spawn();
    let _old = Killed(old.expect("the program can be started"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let config = CosmosDBProviderConfig {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        ..CosmosDBProviderConfig::default()
    };
    let provider = CosmosDBProvider::new_with_config(config).await;
    let provider = provider.expect("the container opens");
    if arguments.get(1).is_some_and(|open| open == "open") {
        open_gate(&provider).await;
    }
    let store = Arc::new(provider);
    let _runtime = Runtime::start_with_options(
        store.clone(),
        workload::activities(false),
        workload::orchestrations(),
        RuntimeOptions::default(),
    )
    .await;
    let ended = run(&Client::new(store)).await;
    for (end, count) in &ended {
        println!("{count:4} {end}");
    }
    match ended.get("chain of 5") {
        Some(&INSTANCES) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

async fn run(client: &Client) -> BTreeMap<String, usize> {
    let mut ended = BTreeMap::new();
    for at in 0..INSTANCES {
        let started = client.start_orchestration(format!("chain-{at}"), "Chain", "5");
        started.await.expect("it starts");
    }
    for at in 0..INSTANCES {
        let instance = format!("chain-{at}");
        let max_wait = Duration::from_secs(60);
        let end = match client.wait_for_orchestration(&instance, max_wait).await {
            Ok(OrchestrationStatus::Completed { output, .. }) => output,
            Ok(OrchestrationStatus::Failed { details, .. }) => {
                let message = details.display_message();
                message.chars().take(90).collect()
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string().chars().take(90).collect(),
        };
        *ended.entry(end).or_default() += 1;
    }
    ended
}

async fn open_gate(provider: &CosmosDBProvider) {
    let container = provider.container();
    let messages = Query::<OrchestratorItem>::in_partition(SCHEMA_PARTITION);
    for message in container.query(messages).all().await.expect("messages") {
        let deleted = container.run(message.delete()).await;
        deleted.expect("it is deleted");
    }
    let activities = Query::<WorkerItem>::in_partition(SCHEMA_PARTITION);
    for activity in container.query(activities).all().await.expect("activities") {
        let deleted = container.run(activity.delete()).await;
        deleted.expect("it is deleted");
    }
}
