//! The other providers, as a process that takes the benchmark's orders.

use std::process::ExitCode;
use std::sync::Arc;

use cdb_bench_child::{Job, Peer, Store, run};
use duroxide::providers::Provider;

#[tokio::main]
async fn main() -> ExitCode {
    match run(open).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn open(job: Job) -> Result<Arc<dyn Provider>, String> {
    let Job {
        store, dispatchers, ..
    } = job;
    match store.peer {
        Peer::Ours => Err("this process holds the others".to_owned()),
        Peer::Existing => open_existing(store, dispatchers).await,
        Peer::Postgres => {
            let opened = duroxide_pg_opt::PostgresProvider::new_with_schema(
                &store.endpoint,
                Some(&store.key),
            );
            Ok(Arc::new(
                opened.await.map_err(|error| format!("{error:#}"))?,
            ))
        }
    }
}

async fn open_existing(store: Store, dispatchers: u32) -> Result<Arc<dyn Provider>, String> {
    let config = duroxide_cdb::CosmosDBProviderConfig {
        endpoint: store.endpoint.trim_end_matches('/').to_owned(),
        key: store.key,
        database: "bench".to_owned(),
        orch_concurrency: dispatchers.max(1),
        worker_concurrency: dispatchers.max(1),
        ..Default::default()
    };
    let provider = duroxide_cdb::CosmosDBProvider::new_with_config(config).await;
    Ok(Arc::new(provider.map_err(|error| error.to_string())?))
}
