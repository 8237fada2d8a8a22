//! A runtime of `duroxide-cdb`, for tests of the migration: `leave-state <endpoint> <key>
//! first|second|join`.
//!
//! `first` and `second` leave unfinished work of every kind in a container; `join` runs all work
//! until it is killed.

#[path = "../../../../tests/upgrade/workload.rs"]
#[expect(dead_code, reason = "the results are read by the test that finishes the work")]
mod workload;

use std::sync::Arc;
use std::time::Duration;

use duroxide_cdb::{CosmosDBProvider, CosmosDBProviderConfig, OutboxFaultInjector};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, key, part] = arguments.as_slice() else {
        panic!("leave-state <endpoint> <key> first|second|join");
    };
    let config = CosmosDBProviderConfig {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
        key: key.clone(),
        reconciler_interval: match part.as_str() {
            "second" => Duration::from_secs(3600),
            _ => Duration::from_secs(2),
        },
        ..CosmosDBProviderConfig::default()
    };
    let opened = CosmosDBProvider::new_with_config(config).await;
    let mut provider = opened.expect("the container opens");
    match part.as_str() {
        "first" => workload::leave_first(Arc::new(provider)).await,
        "second" => {
            provider.set_outbox_fault_injector(OutboxFaultInjector::fail_next(u32::MAX));
            workload::leave_second(Arc::new(provider)).await;
        }
        _ => workload::join(Arc::new(provider)).await,
    }
    // Exit like a crash: no running work may finish.
    std::process::exit(0);
}
