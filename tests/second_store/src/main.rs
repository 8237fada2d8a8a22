//! `cargo test-second-store`

use cdb_second_store::{Host, KEY};

#[tokio::main]
async fn main() {
    let host = Host::start().await.expect("a port");
    println!("COSMOS_ENDPOINT={} COSMOS_KEY={KEY}", host.endpoint());
    std::future::pending::<()>().await;
}
