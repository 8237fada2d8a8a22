//! Failovers and rights that flap while a runtime works: no orchestration fails.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::{Bootstrap, BootstrapConfig, CosmosClient, MasterKey};
use cdb_emulator::{Effect, Emulator, Failover, Fault, OperationKind};
use cdb_provider::documents::{Durable, InstanceKey};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider};
use cdb_tests::Backend;
use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};

use crate::harness::{end_of, next_turn};
use crate::several::{ack, enqueue, start};

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

#[tokio::test(start_paused = true)]
async fn a_commit_waits_for_its_rights_while_it_holds_its_lock() {
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: only the emulator refuses rights on demand");
        return;
    };
    let provider = backend.provider().await;
    enqueue(&provider, start("denied")).await;
    let (item, token, _) = next_turn(&provider, Duration::from_secs(240)).await;
    let denied = Fault::always(Effect::error(403, 5302));
    emulator.inject(denied.on(OperationKind::Batch));
    // Longer than the client retries.
    let rights_return = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        emulator.clear_faults();
    };
    futures::join!(ack(&provider, &item, &token), rights_return);
}

#[tokio::test]
async fn every_opening_refuses_an_account_with_several_write_regions() {
    let emulator = Emulator::builder().regions(REGIONS);
    let emulator = emulator.multiple_write_locations(true).start().await;
    let emulator = emulator.expect("the emulator starts");
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key()).expect("a key"))
        .build()
        .expect("a client");
    let several = BootstrapConfig::default().with_several_write_regions(true);
    let database = client.database("duroxide");
    let container = database.bootstrap::<Durable>("duroxide", several).await;
    let container = container.expect("it is created");
    let config = CosmosDBProviderConfig {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        ..CosmosDBProviderConfig::default()
    };
    let skip = CosmosDBProviderConfig {
        bootstrap: Bootstrap::Skip,
        ..config.clone()
    };
    let leases = Arc::new(InMemoryLeaseProvider::all());
    for opened in [
        CosmosDBProvider::new_with_config(config.clone()).await,
        CosmosDBProvider::new_with_config(skip).await,
        CosmosDBProvider::on(container.clone(), &config).await,
        CosmosDBProvider::with_leases(container, &config, leases).await,
    ] {
        let error = opened.expect_err("two regions could lock one instance");
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(
            text.contains("several write regions (West US, East US)")
                && text.contains("--enable-multiple-write-locations false"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_provider_reads_from_its_preferred_region() {
    let emulator = Emulator::builder().regions(REGIONS).start().await;
    let emulator = emulator.expect("the emulator starts");
    let open = |regions: Vec<String>| {
        CosmosDBProvider::new_with_config(CosmosDBProviderConfig {
            endpoint: emulator.endpoint(),
            key: emulator.key().to_owned(),
            preferred_regions: regions,
            ..CosmosDBProviderConfig::default()
        })
    };
    let near = open(vec!["East US".to_owned()]).await.expect("it opens");
    let far = open(Vec::new()).await.expect("it opens");
    let refused = Fault::always(Effect::error(400, 0)).in_region("East US");
    emulator.inject(refused.on(OperationKind::Read));
    let read = async |provider: &CosmosDBProvider| {
        let key = InstanceKey::new("any");
        provider.container().read(&key).await
    };
    assert!(read(&near).await.is_err());
    assert!(read(&far).await.is_ok());
}
