//! The runtime's part: a provider, a runtime and the orchestrations, as a process that may be killed at any time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use clap::Args;
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use tokio::io::AsyncReadExt;

use crate::ledger::Ledger;
use crate::workload::{activities, orchestrations};

/// The database of a run.
pub(crate) const DATABASE: &str = "chaos";
/// The container of the orchestrations.
pub(crate) const CONTAINER: &str = "chaos";

/// How long locks last, of orchestrations and of activities.
pub const LOCK: Duration = Duration::from_secs(3);

/// Dispatchers of each kind.
const CONCURRENCY: usize = 4;

/// Where a runtime finds its store.
#[derive(Clone, Debug, Args)]
pub struct RuntimeArgs {
    /// Endpoint of the account
    #[arg(long)]
    pub endpoint: String,
    /// Key of the account
    #[arg(long)]
    pub key: String,
}

/// Opens our provider for a runtime.
///
/// # Errors
/// When the store cannot be reached.
pub async fn open(args: RuntimeArgs) -> Result<CosmosDBProvider, String> {
    open_with(args, CosmosDBProviderConfig::default()).await
}

/// Opens our provider for the driver, which looks on and does nothing of what runtimes have to do.
pub(crate) async fn open_to_watch(args: RuntimeArgs) -> Result<CosmosDBProvider, String> {
    let never = CosmosDBProviderConfig {
        reconciler_interval: Duration::from_secs(24 * 60 * 60),
        ..CosmosDBProviderConfig::default()
    };
    open_with(args, never).await
}

async fn open_with(
    args: RuntimeArgs,
    settings: CosmosDBProviderConfig,
) -> Result<CosmosDBProvider, String> {
    let concurrency = u32::try_from(CONCURRENCY).unwrap_or(u32::MAX);
    let config = CosmosDBProviderConfig {
        endpoint: args.endpoint,
        key: args.key,
        database: DATABASE.to_owned(),
        container: CONTAINER.to_owned(),
        orch_concurrency: concurrency,
        worker_concurrency: concurrency,
        ..settings
    };
    let provider = CosmosDBProvider::new_with_config(config).await;
    provider.map_err(|error| error.to_string())
}

/// Repeats what may fail while the store is away.
pub async fn keep_trying<T, E, F>(mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
{
    loop {
        if let Ok(done) = attempt().await {
            return done;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Runs a runtime on the provider that `open` opens, until the driver is gone or the process is killed.
pub async fn serve<P, F>(args: RuntimeArgs, open: impl Fn(RuntimeArgs) -> F)
where
    P: Provider + 'static,
    F: Future<Output = Result<P, String>>,
{
    let provider = Arc::new(keep_trying(|| open(args.clone())).await);
    let ledger = keep_trying(|| Ledger::open(&args.endpoint, &args.key)).await;
    let options = RuntimeOptions {
        orchestration_concurrency: CONCURRENCY,
        worker_concurrency: CONCURRENCY,
        orchestrator_lock_timeout: LOCK,
        worker_lock_timeout: LOCK,
        session_lock_timeout: LOCK,
        // Being killed costs an attempt; none of them is the message's.
        max_attempts: 100,
        ..RuntimeOptions::default()
    };
    let registries = (activities(&ledger), orchestrations());
    let _runtime = Runtime::start_with_options(provider, registries.0, registries.1, options).await;
    println!("ready");
    until_input_ends().await;
}

/// The driver holds the other end: when it dies, however, its children end.
pub(crate) async fn until_input_ends() {
    let mut rest = Vec::new();
    // An input that breaks has ended, too.
    let _ended = tokio::io::stdin().read_to_end(&mut rest).await;
}
