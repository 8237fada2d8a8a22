//! Regions and rights: what a provider opens, waits for and reads from. The directed simulations have
//! failovers and rights that flap while a runtime works.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::database::BootstrapConfig;
use cdb_client::retry::RetryConfig;
use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, CosmosClient, MasterKey};
use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_provider::documents::{Durable, InstanceKey};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider};
use cdb_tests::Backend;
use tokio::time::Instant;

use crate::several::{ack, start, turn_with};

const REGIONS: [&str; 2] = ["West US", "East US"];

#[tokio::test(start_paused = true)]
async fn a_commit_waits_for_its_rights_while_it_holds_its_lock() {
    let backend = Backend::start_simulated().await;
    let emulator = or_skip!(backend.emulator(), "needs the emulator");
    let provider = backend.provider().await;
    let (item, token, _) = turn_with(&provider, start("denied"), Duration::from_secs(240)).await;
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
    let container = ok!(database.bootstrap::<Durable>("duroxide", several));
    let config = CosmosDBProviderConfig {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        ..CosmosDBProviderConfig::default()
    };
    let skip = CosmosDBProviderConfig {
        bootstrap: Bootstrap::Skip,
        ..config.clone()
    };
    let with_leases = CosmosDBProviderConfig {
        leases: Some(Arc::new(InMemoryLeaseProvider::all())),
        ..config.clone()
    };
    for opened in [
        CosmosDBProvider::new_with_config(config.clone()).await,
        CosmosDBProvider::new_with_config(skip).await,
        CosmosDBProvider::on(container.clone(), &config).await,
        CosmosDBProvider::on(container, &with_leases).await,
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

/// Source: concepts-limits, "Request limits". `duroxide-cdb` waits 80 s.
#[tokio::test(start_paused = true)]
async fn openings_wait_while_the_account_throttles_metadata() {
    let time = SimulatedTime::new();
    let service = Emulator::builder().metadata_budget(8).clock(time.clock());
    let emulator = time.in_real_time(service.start()).await.unwrap();
    let open = async |patience: u64| {
        let patience = Duration::from_secs(patience);
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).unwrap())
            .transport(time.clone())
            .clock_of(&time)
            .retry(RetryConfig::default().with_opening_deadline(patience))
            .build()
            .unwrap();
        let database = client.database("d");
        let opened = database.bootstrap::<Durable>("c", Bootstrap::CreateIfMissing);
        opened.await.map(drop)
    };
    let begun = Instant::now();
    while open(0).await.is_ok() {}
    tokio::time::sleep_until(begun + Duration::from_secs(240)).await;
    assert!(open(40).await.unwrap_err().is_throttled());
    tokio::try_join!(open(80), open(80), open(80)).unwrap();
    let waited = begun.elapsed();
    assert!((300..305).contains(&waited.as_secs()), "{waited:?}");
}
