//! Accounts with several regions: partitions that fail over alone, and several write regions. Time
//! is simulated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cdb_emulator::{Effect, Emulator, Fault, OperationKind, Settings};
use cdb_model::Document as _;
use tokio::time::{Instant, sleep};

use super::shop::{Profile, Shop, profile};
use crate::account::CosmosClient;
use crate::container::ContainerClient;
use crate::credential::MasterKey;
use crate::database::BootstrapConfig;
use crate::protocol::header;
use crate::transport::{HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError};

const WEST: &str = "West US";
const EAST: &str = "East US";

/// A network that does not answer for a partition key at an endpoint. The clock of the test stands
/// still while the emulator is asked, so that it cannot be silent itself.
#[derive(Clone, Debug)]
struct Network {
    time: SimulatedTime,
    silent: Arc<Mutex<Option<(String, String)>>>,
}

#[async_trait]
impl Transport for Network {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let key = request.headers.get(header::PARTITION_KEY);
        let key = key.and_then(|key| key.to_str().ok());
        let is_silent = |(endpoint, partition): &(String, String)| {
            request.url.starts_with(endpoint.as_str()) && key == Some(partition)
        };
        if self.silent.lock().unwrap().as_ref().is_some_and(is_silent) {
            std::future::pending::<()>().await;
        }
        self.time.send(request).await
    }
}

/// The partition that fails over.
const MOVED: &str = "1";

/// An account with two regions, and a container with two physical partitions.
struct Regions {
    emulator: Emulator,
    network: Network,
    shop: ContainerClient<Shop>,
    /// A customer in each partition.
    customers: [String; 2],
}

impl Regions {
    async fn open(settings: Settings, preferred: &[&str]) -> Self {
        let time = SimulatedTime::new();
        let settings = settings.regions([WEST, EAST]).physical_partitions(2);
        let emulator = time.in_real_time(settings.clock(time.clock()).start());
        let emulator = emulator.await.unwrap();
        let network = Network {
            time: time.clone(),
            silent: Arc::default(),
        };
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).unwrap())
            .preferred_regions(preferred.iter().copied())
            .transport(network.clone())
            .clock_of(&time)
            .build()
            .unwrap();
        let config = BootstrapConfig::default().with_several_write_regions(true);
        let database = client.database("db");
        let shop = database.bootstrap::<Shop>("shop", config).await.unwrap();
        let mut customers = [String::new(), String::new()];
        for number in 0..20 {
            let customer = format!("customer-{number}");
            let range = shop
                .physical_partition_of(&customer.as_str().into())
                .await
                .unwrap();
            let range: usize = range.unwrap().to_string().parse().unwrap();
            customers[range] = customer;
        }
        Self {
            emulator,
            network,
            shop,
            customers,
        }
    }

    /// An account whose partitions fail over alone.
    async fn failing_over() -> Self {
        Self::open(Emulator::builder().partition_failover(true), &[]).await
    }

    fn fail_over(&self, region: &str) {
        let moved = self
            .emulator
            .fail_over_partition("db", "shop", MOVED, region);
        moved.unwrap();
    }

    /// Lets requests of a partition fail in one region.
    fn sicken(&self, effect: Effect, region: &str, partition: &str) {
        let sick = Fault::always(effect).in_region(region);
        self.emulator
            .inject(sick.on_partition(partition).on_every_kind());
    }

    fn profile(&self, partition: usize) -> Profile {
        Profile {
            customer: self.customers[partition].clone(),
            ..profile()
        }
    }

    async fn write(&self, partition: usize) {
        self.shop
            .run(self.profile(partition).upsert())
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn writes_follow_a_partition_that_fails_over_alone_and_return_with_it() {
    let regions = Regions::failing_over().await;
    let refused = Effect::error(400, 0);
    for (now, former) in [(EAST, WEST), (WEST, EAST), (EAST, WEST)] {
        regions.fail_over(now);
        let begun = Instant::now();
        regions.write(1).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(10), "{took:?}");
        // From now on, no write asks the former region, and no other partition moves.
        regions.sicken(refused.clone(), former, MOVED);
        regions.sicken(refused.clone(), EAST, "0");
        regions.write(1).await;
        regions.write(0).await;
        regions.emulator.clear_faults();
    }
}

#[tokio::test(start_paused = true)]
async fn the_latest_state_is_read_from_the_region_that_has_the_writes() {
    let regions = Regions::failing_over().await;
    regions.write(1).await;
    regions.fail_over(EAST);
    let profile = regions.profile(1);
    let latest = regions.shop.latest_committed();
    assert!(latest.read(&profile.key()).await.unwrap().is_some());
    // Without a write, so that only the answer of the former region can have told the client.
    regions.emulator.inject(
        Fault::always(Effect::error(400, 0))
            .in_region(EAST)
            .on(OperationKind::Read),
    );
    assert!(latest.read(&profile.key()).await.is_err());
}

/// Writes while a partition is silent or unavailable in the west. Returns how long it takes after
/// the partition has failed over.
async fn time_after_the_move(is_silent: bool, outage: Duration) -> Duration {
    let regions = Regions::failing_over().await;
    regions.write(1).await;
    if is_silent {
        let west = regions.emulator.region_endpoint(WEST).unwrap();
        let west = west.trim_end_matches('/').to_owned();
        let key = format!("[\"{}\"]", regions.customers[1]);
        *regions.network.silent.lock().unwrap() = Some((west, key));
    } else {
        regions.sicken(Effect::error(503, 0), WEST, MOVED);
    }
    let (shop, profile) = (&regions.shop, regions.profile(1));
    let key = profile.customer.as_str().into();
    let written = async {
        loop {
            if let Some(backoff) = shop.backoff_of(&key) {
                sleep(backoff).await;
            } else if shop.in_time(&key, shop.run(profile.upsert())).await.is_ok() {
                return Instant::now();
            }
        }
    };
    let moved = async {
        sleep(outage).await;
        regions.fail_over(EAST);
        Instant::now()
    };
    let (written, moved) = tokio::join!(written, moved);
    let took = written - moved;
    // Reads leave the silent region too.
    let begun = Instant::now();
    regions.shop.read(&profile.key()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    took
}

#[tokio::test(start_paused = true)]
async fn writes_go_on_two_seconds_after_a_sick_partition_has_failed_over() {
    for tenths in [0, 3, 7, 15, 100, 104, 111, 600] {
        let outage = Duration::from_millis(tenths * 100);
        for is_silent in [false, true] {
            let took = time_after_the_move(is_silent, outage).await;
            let bound = Duration::from_millis(2100);
            assert!(took < bound, "{is_silent}, {outage:?}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_until_a_region_accepts_its_partition() {
    let regions = Regions::failing_over().await;
    regions.fail_over(EAST);
    regions.sicken(Effect::error(403, 3), EAST, MOVED);
    let begun = Instant::now();
    let accepted = async {
        sleep(Duration::from_secs(5)).await;
        regions.emulator.clear_faults();
    };
    tokio::join!(regions.write(1), accepted);
    assert!(begun.elapsed() < Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn each_of_several_write_regions_accepts_writes_and_serves_for_another_one() {
    let settings = Emulator::builder().multiple_write_locations(true);
    let regions = Regions::open(settings, &[EAST]).await;
    regions.sicken(Effect::error(400, 0), WEST, MOVED);
    regions.write(1).await;
    regions.emulator.clear_faults();
    regions.sicken(Effect::error(503, 0), EAST, MOVED);
    regions.write(1).await;
}
