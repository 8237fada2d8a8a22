//! Authentication, authorization, and secrets that must not appear in logs.

mod certificates;
mod entra;
mod key_rotation;
mod secrets;

use std::sync::Arc;

use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::harness::{end_of, long_locks, no_activities};

/// Settings of a provider that has this endpoint and no key.
fn without_key(endpoint: String) -> CosmosDBProviderConfig {
    CosmosDBProviderConfig {
        endpoint,
        ..CosmosDBProviderConfig::default()
    }
}

/// Runs one orchestration from its start to its end, with a sub-orchestration and a timer in it.
async fn work_gets_done(provider: &CosmosDBProvider, instance: &str) {
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Parent",
            async |ctx: OrchestrationContext, input: String| {
                ctx.schedule_timer(std::time::Duration::from_millis(20))
                    .await;
                ctx.schedule_sub_orchestration("Child", input).await
            },
        )
        .register(
            "Child",
            |_: OrchestrationContext, input: String| async move { Ok(format!("{input} and done")) },
        )
        .build();
    let store: Arc<dyn Provider> = Arc::new(provider.clone());
    let runtime =
        Runtime::start_with_options(store.clone(), no_activities(), orchestrations, long_locks())
            .await;
    let client = Client::new(store);
    ok!(client.start_orchestration(instance, "Parent", "begun"));
    match end_of(&client, instance).await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, "begun and done"),
        other => panic!("{other:?}"),
    }
    runtime.shutdown(None).await;
}
