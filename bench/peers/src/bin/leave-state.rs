//! Leaves unfinished work of every kind in a container, with `duroxide-cdb`: `leave-state <endpoint> <key> first|second`.

#[path = "../../../../tests/upgrade/workload.rs"]
#[expect(dead_code, reason = "what becomes of it is for whoever finishes it")]
mod workload;

use std::sync::Arc;
use std::time::Duration;

use duroxide_cdb::{CosmosDBProvider, CosmosDBProviderConfig, OutboxFaultInjector};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, key, part] = arguments.as_slice() else {
        panic!("leave-state <endpoint> <key> first|second");
    };
    let config = CosmosDBProviderConfig {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
        key: key.clone(),
        reconciler_interval: match part.as_str() {
            "first" => Duration::from_secs(2),
            _ => Duration::from_secs(3600),
        },
        ..CosmosDBProviderConfig::default()
    };
    let opened = CosmosDBProvider::new_with_config(config).await;
    let mut provider = opened.expect("the container opens");
    if part == "first" {
        workload::leave_first(Arc::new(provider)).await;
    } else {
        provider.set_outbox_fault_injector(OutboxFaultInjector::fail_next(u32::MAX));
        workload::leave_second(Arc::new(provider)).await;
    }
    // As a crash does: nothing that is under way may finish.
    std::process::exit(0);
}
