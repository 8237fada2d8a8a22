//! The command `chaos` on `duroxide-cdb`: the same driver, store, orchestrations, faults and
//! judgement as for ours.
//!
//! It has its default settings, except the concurrency, which is ours.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONCURRENCY, CONTAINER, DATABASE, Opened, Role, RuntimeArgs, Subject, command};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide_cdb::{CosmosDBProvider, CosmosDBProviderConfig};
use futures::FutureExt;

#[tokio::main]
async fn main() -> ExitCode {
    let existing = Subject {
        name: "duroxide-cdb 0.1.10",
        open: |args, role| open(args, role).boxed(),
    };
    command(existing).await
}

async fn open(args: RuntimeArgs, role: Role) -> Result<Opened, String> {
    let concurrency = u32::try_from(CONCURRENCY).unwrap_or(u32::MAX);
    let mut config = CosmosDBProviderConfig {
        endpoint: args.endpoint.trim_end_matches('/').to_owned(),
        key: args.key,
        database: DATABASE.to_owned(),
        container: CONTAINER.to_owned(),
        orch_concurrency: concurrency,
        worker_concurrency: concurrency,
        ..CosmosDBProviderConfig::default()
    };
    if role == Role::LooksOn {
        config.reconciler_interval = Duration::from_hours(24);
    }
    let provider = CosmosDBProvider::new_with_config(config).await;
    Ok(Opened {
        provider: Arc::new(provider.map_err(|error| error.to_string())?),
        activities: ActivityRegistry::builder().build(),
    })
}
