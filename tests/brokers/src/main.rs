//! A bridge process: `cdb-bridge SERVER ENDPOINT CONTAINER CALLS`. After CALLS publications and
//! acknowledgements it ends itself; 0 is never.

use std::sync::Arc;

use cdb_brokers::{Failure, Fatal, NatsBroker, Shop, coordinator, database, handlers};
use cdb_client::ContainerClient;
use cdb_work::{Lane, RunConfig};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [server, endpoint, name, calls] = &words[..] else {
        return Err("usage: cdb-bridge SERVER ENDPOINT CONTAINER CALLS".into());
    };
    let other = if name == "orders" {
        "warehouse"
    } else {
        "orders"
    };
    let container: ContainerClient<Shop> = database(endpoint)?.container(name.as_str());
    let work = coordinator(&container).await?;
    let broker = NatsBroker::connect(server, other, name).await?;
    // The handlers of the inbox run apart from the bridge.
    let _inbox = work.run(RunConfig::default().with_lane(Lane::Inbox), handlers());
    let _bridge = work.bridge(
        RunConfig::default(),
        Arc::new(Fatal::new(broker, calls.parse()?)),
    );
    // Until the process is killed.
    std::future::pending().await
}
