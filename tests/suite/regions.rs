//! Failovers and rights that flap while a runtime works: no orchestration fails.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Failover, Fault};
use cdb_provider::CosmosDBProvider;
use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};

use crate::harness::end_of;

const REGIONS: [&str; 2] = ["West US", "East US"];

async fn open(emulator: &Emulator) -> CosmosDBProvider {
    let opened = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await;
    opened.expect("the container opens")
}

/// A runtime whose orchestrations run five activities each.
async fn runtime(store: &Arc<dyn Provider>) -> Arc<Runtime> {
    let flow = |ctx: OrchestrationContext, _: String| async move {
        for step in 0..5 {
            ctx.schedule_activity("Step", step.to_string()).await?;
        }
        Ok("done".to_owned())
    };
    let step = |_: ActivityContext, input: String| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(input)
    };
    let orchestrations = OrchestrationRegistry::builder().register("Flow", flow);
    let activities = ActivityRegistry::builder().register("Step", step);
    Runtime::start_with_store(store.clone(), activities.build(), orchestrations.build()).await
}

async fn all_complete(client: &Client, instances: &[String]) {
    for instance in instances {
        match end_of(client, instance).await {
            OrchestrationStatus::Completed { output, .. } => assert_eq!(output, "done"),
            other => panic!("{instance}: {other:?}"),
        }
    }
}

/// Starts orchestrations, lets `disturb` work for a while, and expects all to complete.
async fn complete_during(emulator: &Emulator, disturb: impl AsyncFnOnce()) {
    let store: Arc<dyn Provider> = Arc::new(open(emulator).await);
    let runtime = runtime(&store).await;
    let client = Client::new(store);
    let instances: Vec<String> = (0..8).map(|number| format!("flow-{number}")).collect();
    for instance in &instances {
        let started = client.start_orchestration(instance, "Flow", "").await;
        started.expect("it starts");
    }
    tokio::time::sleep(Duration::from_millis(250)).await;
    disturb().await;
    all_complete(&client, &instances).await;
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn orchestrations_complete_although_the_write_region_moves() {
    let emulator = Emulator::builder().regions(REGIONS).start().await;
    let emulator = emulator.expect("the emulator starts");
    complete_during(&emulator, async || {
        let failover = Failover::to("East US").document_after(Duration::from_secs(1));
        emulator
            .failover_with(&failover)
            .expect("there is a region");
    })
    .await;
}

#[tokio::test]
async fn orchestrations_complete_although_rights_flap() {
    let emulator = Emulator::start().await.expect("the emulator starts");
    complete_during(&emulator, async || {
        for (status, substatus) in [(403, 5302), (401, 0), (403, 0)] {
            let denied = Effect::error(status, substatus);
            let always = Fault::always(denied.clone()).on_every_kind();
            emulator.inject(always.lasting(Duration::from_millis(800)));
            tokio::time::sleep(Duration::from_secs(1)).await;
            let sometimes = Fault::with_probability(denied, 0.5).on_every_kind();
            emulator.inject(sometimes.lasting(Duration::from_secs(1)));
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_provider_refuses_an_account_with_several_write_regions() {
    let emulator = Emulator::builder().regions(REGIONS);
    let emulator = emulator.multiple_write_locations().start().await;
    let emulator = emulator.expect("the emulator starts");
    let opened = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await;
    let error = opened.expect_err("two regions could lock one instance");
    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(
        text.contains("several write regions (West US, East US)"),
        "{text}"
    );
}
