//! The smallest orchestration: one activity, on the embedded emulator or on the account that
//! `COSMOS_ENDPOINT` and `COSMOS_KEY` name.
//!
//! `cargo run -p cdb-examples --bin hello`

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let emulator = Emulator::start().await?;
    let config = CosmosDBProviderConfig::from_env_or(&emulator.connection_string())?;
    let store = Arc::new(CosmosDBProvider::new_with_config(config).await?);

    let activities = ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        });
    let orchestrations = OrchestrationRegistry::builder().register(
        "Hello",
        |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Greet", name).await
        },
    );
    let runtime =
        Runtime::start_with_store(store.clone(), activities.build(), orchestrations.build()).await;

    // An instance id can be used once, so a second run on an account needs another id.
    let instance = format!("hello-{}", std::process::id());
    let client = Client::new(store);
    client
        .start_orchestration(&instance, "Hello", "Ada")
        .await?;
    let status = client
        .wait_for_orchestration(&instance, Duration::from_secs(300))
        .await?;
    runtime.shutdown(None).await;
    match status {
        OrchestrationStatus::Completed { output, .. } => {
            println!("{output}");
            Ok(())
        }
        other => Err(format!("it did not complete: {other:?}").into()),
    }
}
