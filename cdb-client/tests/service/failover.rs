//! Accounts with several regions: failovers, preferred regions, regions that leave, rights that
//! flap.

use std::time::Duration;

use cdb_client::{
    Bootstrap, ContainerClient, CosmosClient, CosmosClientBuilder, Error, ErrorKind, MasterKey,
};
use cdb_emulator::{Effect, Emulator, Failover, Fault};
use cdb_model::Document as _;

use crate::shop::{Shop, order};

const REGIONS: [&str; 2] = ["West US", "East US"];

async fn account() -> Emulator {
    Emulator::builder().regions(REGIONS).start().await.unwrap()
}

fn builder(emulator: &Emulator) -> CosmosClientBuilder {
    CosmosClient::builder(emulator.endpoint()).credential(MasterKey::new(emulator.key()).unwrap())
}

async fn open(client: CosmosClientBuilder) -> Result<ContainerClient<Shop>, Error> {
    let database = client.build().unwrap().database("shop");
    database.bootstrap("shop", Bootstrap::CreateIfMissing).await
}

#[tokio::test]
async fn writes_and_reads_follow_a_failover() {
    let emulator = account().await;
    let shop = open(builder(&emulator)).await.unwrap();
    shop.create(&order("ann", 1)).await.unwrap();
    for number in 2..5 {
        emulator.failover().unwrap();
        shop.create(&order("ann", number)).await.unwrap();
        let key = order("ann", number).key();
        assert!(shop.read_in(&"ann".into(), &key).await.unwrap().is_some());
    }
    emulator.move_global_endpoint();
    shop.create(&order("ann", 9)).await.unwrap();
}

#[tokio::test]
async fn a_write_outlasts_a_failover_whose_document_is_late() {
    let emulator = account().await;
    let shop = open(builder(&emulator)).await.unwrap();
    let failover = Failover::to("East US").document_after(Duration::from_millis(1500));
    emulator.failover_with(&failover).unwrap();
    shop.create(&order("ann", 1)).await.unwrap();
}

#[tokio::test]
async fn reads_move_from_a_preferred_region_that_fails_or_leaves() {
    let emulator = account().await;
    let client = builder(&emulator).preferred_regions(["East US"]);
    let shop = open(client).await.unwrap();
    shop.create(&order("ann", 1)).await.unwrap();
    let (ann, key) = ("ann".into(), order("ann", 1).key());
    // A write would be refused there: the read proves that another region answers.
    let broken = Fault::always(Effect::error(503, 0)).in_region("East US");
    emulator.inject(broken.on_every_kind());
    assert!(shop.read_in(&ann, &key).await.unwrap().is_some());
    emulator.clear_faults();
    assert!(shop.read_in(&ann, &key).await.unwrap().is_some());
    emulator.remove_region("East US").unwrap();
    assert!(shop.read_in(&ann, &key).await.unwrap().is_some());
    shop.create(&order("ann", 2)).await.unwrap();
}

#[tokio::test]
async fn several_write_regions_are_refused_at_opening() {
    let emulator = Emulator::builder().regions(REGIONS);
    let emulator = emulator
        .multiple_write_locations(true)
        .start()
        .await
        .unwrap();
    let error = open(builder(&emulator)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(
        error.to_string().contains("several write regions"),
        "{error}"
    );
}

#[tokio::test]
async fn a_working_program_outlasts_rights_that_flap() {
    let emulator = Emulator::start().await.unwrap();
    let shop = open(builder(&emulator)).await.unwrap();
    shop.create(&order("ann", 0)).await.unwrap();
    for (number, (status, sub)) in (1..).zip([(403, 5302), (403, 0), (401, 0)]) {
        let flapping = Fault::always(Effect::error(status, sub)).on_every_kind();
        emulator.inject(flapping.lasting(Duration::from_secs(1)));
        shop.create(&order("ann", number)).await.unwrap();
    }
}
