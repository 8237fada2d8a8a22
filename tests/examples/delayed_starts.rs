//! Measures whether a runtime with many delayed starts still finds the starts of other processes,
//! and its memory.
//!
//! `cargo run --release -p cdb-tests --example delayed_starts -- 60000`. A process with a runtime
//! enqueues that many starts, due in 250 s. Then this process starts 20 instances, and counts those
//! that end within two seconds.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::{Provider as _, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use futures::{StreamExt as _, TryStreamExt as _, stream};

type Failure = Box<dyn std::error::Error>;

const DELAY: Duration = Duration::from_secs(250);
/// How many starts are sent at the same time.
const AT_ONCE: usize = 64;
const STARTS: usize = 20;
const IN_TIME: Duration = Duration::from_secs(2);

/// A process that ends with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [hold, endpoint, key, count] if hold == "hold" => {
            hold_starts(open(endpoint, key).await?, count.parse()?).await
        }
        [] => measure("60000").await,
        [count] => measure(count).await,
        _ => Err("delayed_starts [<number of delayed starts>]".into()),
    }
}

async fn open(endpoint: &str, key: &str) -> Result<CosmosDBProvider, Failure> {
    let config = CosmosDBProviderConfig {
        endpoint: endpoint.to_owned(),
        key: key.to_owned(),
        ..CosmosDBProviderConfig::default()
    };
    Ok(CosmosDBProvider::new_with_config(config).await?)
}

/// Starts the other process, waits until it has enqueued its starts, and starts instances of this
/// process's own.
async fn measure(count: &str) -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    let provider = open(&emulator.endpoint(), emulator.key()).await?;
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["hold", &emulator.endpoint(), emulator.key(), count])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = holder.stdout.take().ok_or("the process has no output")?;
    let _holder = Killed(holder);
    let ready = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .map(|_bytes| line)
    });
    print!("{}", ready.await??);
    let client = Client::new(Arc::new(provider));
    for number in 0..STARTS {
        let instance = format!("now-{number}");
        client.start_orchestration(instance, "Hello", "").await?;
    }
    let begun = Instant::now();
    let ended = (0..STARTS).map(|number| {
        let client = &client;
        async move {
            let instance = format!("now-{number}");
            let end = client.wait_for_orchestration(&instance, IN_TIME).await;
            matches!(end, Ok(OrchestrationStatus::Completed { .. }))
        }
    });
    let ended = futures::future::join_all(ended).await;
    let ended = ended.into_iter().filter(|ended| *ended).count();
    println!(
        "{ended} of {STARTS} starts of another process ended within {:.1?}",
        begun.elapsed()
    );
    Ok(())
}

/// Runs a runtime that enqueues starts itself, until it is killed.
async fn hold_starts(provider: CosmosDBProvider, count: usize) -> Result<(), Failure> {
    let store = Arc::new(provider);
    let orchestrations = OrchestrationRegistry::builder()
        .register("Hello", |_: OrchestrationContext, _: String| async move {
            Ok("hello".to_owned())
        })
        .build();
    let _runtime = Runtime::start_with_options(
        store.clone(),
        ActivityRegistry::builder().build(),
        orchestrations,
        RuntimeOptions::default(),
    )
    .await;
    let before = resident_megabytes()?;
    let begun = Instant::now();
    stream::iter(
        (0..count).map(|number| store.enqueue_for_orchestrator(start(number), Some(DELAY))),
    )
    .buffer_unordered(AT_ONCE)
    .try_collect::<()>()
    .await?;
    println!(
        "{count} starts enqueued in {:.1?}, due {DELAY:?} later; the process has {:.0} MB, {before:.0} before",
        begun.elapsed(),
        resident_megabytes()?
    );
    std::future::pending().await
}

fn start(number: usize) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: format!("later-{number}"),
        orchestration: "Hello".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// The memory of this process, on Linux.
fn resident_megabytes() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let kilobytes = lines
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .ok_or("/proc/self/status does not tell the memory")?;
    Ok(kilobytes.trim().parse::<f64>()? / 1024.0)
}
