//! Leaves unfinished work of every kind in a container, with this version: `leave_state <endpoint>
//! <key> first|second`.
//!
//! `upgrade_fixture` starts it and writes the container into a file, for tests of later versions.

#[path = "../upgrade/workload.rs"]
#[expect(
    dead_code,
    reason = "the results are read by the test that finishes the work"
)]
mod workload;

use std::sync::Arc;
use std::time::Duration;

use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, key, part] = arguments.as_slice() else {
        panic!("leave_state <endpoint> <key> first|second");
    };
    let config = CosmosDBProviderConfig {
        endpoint: endpoint.clone(),
        key: key.clone(),
        reconciler_interval: match part.as_str() {
            "second" => Duration::from_secs(3600),
            _ => Duration::from_secs(2),
        },
        ..CosmosDBProviderConfig::default()
    };
    let opened = CosmosDBProvider::new_with_config(config).await;
    let provider = Arc::new(opened.expect("the container opens"));
    match part.as_str() {
        "first" => workload::leave_first(provider).await,
        _ => workload::leave_second(provider).await,
    }
    // Exit like a crash: no running work may finish.
    std::process::exit(0);
}
