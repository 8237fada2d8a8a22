//! Every public call that sends requests ends while the service fails for good: within its deadline,
//! however many callers there are, and with few requests until then. Time is simulated.
//!
//! `calls.rs` has a line for each call. Without a fault, a call shows which kinds of requests it
//! sends; then each of these kinds fails in each way.

mod calls;
mod listing;
mod network;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::lease::Fenced;
use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_coordination::{Messaging, Received};
use cdb_emulator::Emulator;
use cdb_work::{Settlement, Work, WorkCoordinator};
use futures::future::join_all;
use tokio::time::{Instant, timeout};

use calls::{CALLS, Call, Shop};
use network::{Failing, Failure, Sent};

/// The deadline of a request.
const DEADLINE: Duration = Duration::from_secs(30);

/// The same for a throttled request about the account, a database or a container: the default of
/// `RetryConfig::opening_deadline`.
const OPENING: Duration = Duration::from_secs(80);

/// The most failing requests within a second, of each request that a caller sends at a time.
const MOST: usize = 12;

/// When a call counts as endless.
const ENDLESS: Duration = Duration::from_secs(900);

/// A call that does not end in time, or sends too much.
struct Found {
    name: &'static str,
    sent: Sent,
    text: String,
}

/// A process on the failing network.
struct World {
    network: Failing,
    client: CosmosClient,
    shop: ContainerClient<Shop>,
    messaging: std::sync::OnceLock<Messaging<Shop>>,
    /// Opened before the fault.
    work: Option<WorkCoordinator>,
}

impl World {
    fn messaging(&self) -> &Messaging<Shop> {
        let received = async |_: Received<calls::Note>, batch| Ok(batch);
        let builder = || Messaging::builder(self.shop.clone()).on(received);
        let start = || builder().start();
        let started = || start().expect("the durations fit");
        self.messaging.get_or_init(started)
    }

    fn work(&self) -> &WorkCoordinator {
        self.work.as_ref().expect("it is opened for such calls")
    }

    fn work_container(&self) -> ContainerClient<Work> {
        self.client.database("test").container("work")
    }
}

/// The emulator, with the containers.
struct Service {
    emulator: Emulator,
    time: SimulatedTime,
}

impl Service {
    async fn start() -> Self {
        let time = SimulatedTime::new();
        let emulator = Emulator::builder().physical_partitions(2);
        let emulator = emulator.clock(time.clock()).start();
        let emulator = time.in_real_time(emulator).await.expect("it starts");
        let service = Self { emulator, time };
        let world = service.process();
        let database = world.client.database("test");
        let created = database.bootstrap::<Shop>("shop", Bootstrap::CreateIfMissing);
        created.await.expect("a container");
        let created = database.bootstrap::<Work>("work", Bootstrap::CreateIfMissing);
        created.await.expect("a container");
        calls::fill(&world).await;
        service
    }

    fn process(&self) -> World {
        let network = Failing::new(self.time.clone());
        let key = MasterKey::new(self.emulator.key()).expect("a key");
        let client = CosmosClient::builder(self.emulator.endpoint())
            .credential(key)
            .transport(network.clone())
            .clock_of(&self.time);
        let client = client.build().expect("an endpoint");
        World {
            network,
            shop: client.database("test").container("shop"),
            client,
            messaging: std::sync::OnceLock::new(),
            work: None,
        }
    }

    async fn world(&self, call: &Call) -> Arc<World> {
        let mut world = self.process();
        if call.needs_work {
            let slots = Arc::new(InMemoryLeaseProvider::all());
            let open = WorkCoordinator::open(world.work_container(), slots, calls::work_config());
            world.work = Some(open.await.expect("it opens"));
        }
        world.network.forget();
        Arc::new(world)
    }

    /// Returns the kinds of requests that a call sends.
    async fn kinds(&self, call: &Call) -> BTreeSet<Sent> {
        let world = self.world(call).await;
        let ended = timeout(ENDLESS, (call.run)(world.clone())).await;
        assert!(ended.is_ok(), "{} does not end without a fault", call.name);
        let kinds = world.network.kinds();
        close(&world).await;
        kinds
    }

    /// Runs a call with these requests failing. Returns what is wrong with it.
    async fn fail(&self, call: &Call, sent: Sent, how: Failure, callers: usize) -> Option<Found> {
        let world = self.world(call).await;
        world.network.fail(sent, how);
        let begun = Instant::now();
        let running = (0..callers).map(|_| (call.run)(world.clone()));
        let ended = timeout(ENDLESS, join_all(running)).await;
        let took = begun.elapsed();
        let busiest = world.network.busiest_second();
        world.network.repair();
        close(&world).await;
        let deadline = match (sent, how) {
            (Sent::Metadata, Failure::Status(429, _)) => OPENING,
            _ => DEADLINE,
        };
        let bound = deadline * 2;
        // The background tasks of the process send a few, too.
        let most = MOST * (callers * call.concurrent + 1);
        let name = call.name;
        let text = format!(
            "{name}, {sent:?} {how:?}, {callers} callers: {took:?}, {busiest} failing requests in a second"
        );
        let is_right = ended.is_ok() && took <= bound && busiest <= most;
        (!is_right).then_some(Found { name, sent, text })
    }
}

async fn close(world: &World) {
    if let Some(work) = &world.work {
        // A call may have ended it.
        drop(work.shutdown().await);
    }
    if let Some(messaging) = world.messaging.get() {
        messaging.clone().stop().await;
    }
}

/// Runs every call of these names with every failure.
async fn judge(of: &'static str) {
    let service = Service::start().await;
    let mut found = Vec::new();
    for call in CALLS.iter().filter(|call| call.of == of) {
        let kinds = service.kinds(call).await;
        assert!(!kinds.is_empty(), "{} sends nothing", call.name);
        for (callers, failures) in [
            (1, Failure::ALL),
            (10, Failure::SHARED),
            (100, &[Failure::Silent]),
        ] {
            for sent in &kinds {
                for how in failures {
                    found.extend(service.fail(call, *sent, *how, callers).await);
                }
            }
        }
    }
    let is_of =
        |found: &Found, (name, sent): &(&str, Sent)| found.name == *name && found.sent == *sent;
    let is_open = |found: &&Found| calls::OPEN.iter().any(|open| is_of(found, open));
    let new: Vec<_> = found
        .iter()
        .filter(|found| !is_open(found))
        .map(|found| &*found.text)
        .collect();
    assert!(new.is_empty(), "{}", new.join("\n"));
    let is_of_crate = |name: &str| CALLS.iter().any(|call| call.of == of && call.name == name);
    let open = calls::OPEN.iter().filter(|(name, _)| is_of_crate(name));
    let mended: Vec<_> = open
        .filter(|open| !found.iter().any(|found| is_of(found, open)))
        .collect();
    assert!(mended.is_empty(), "remove {mended:?} from the open faults");
}

#[tokio::test(start_paused = true)]
async fn every_call_of_the_client_ends() {
    judge("cdb-client").await;
}

#[tokio::test(start_paused = true)]
async fn every_call_of_coordination_ends() {
    judge("cdb-coordination").await;
}

#[tokio::test(start_paused = true)]
async fn every_call_of_ordered_work_ends() {
    judge("cdb-work").await;
}

/// No process has used the containers before, so the calls store a number first.
#[tokio::test(start_paused = true)]
async fn the_first_call_of_a_container_ends() {
    let mut found = Vec::new();
    for name in ["Messaging::commit", "WorkCoordinator::open"] {
        let call = CALLS.iter().find(|call| call.name == name);
        let call = call.expect("it is listed");
        for how in Failure::ALL {
            let service = Service::start().await;
            found.extend(service.fail(call, Sent::Create, *how, 1).await);
        }
    }
    let found: Vec<_> = found.iter().map(|found| &*found.text).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The time of a fault that calls survive.
const SHORT: Duration = Duration::from_secs(15);

#[tokio::test(start_paused = true)]
async fn a_write_survives_a_short_fault_and_is_unknown_after_a_long_one() {
    let service = Service::start().await;
    let world = service.process();
    world.network.fail(Sent::Batch, Failure::Silent);
    let unknown = match calls::place(&world).await {
        Ok(Fenced::Unknown(error)) => error,
        Err(error) => Some(error),
        placed => panic!("{placed:?}"),
    };
    assert!(unknown.is_some_and(|error| error.is_ambiguous()));
    let repair = async {
        tokio::time::sleep(SHORT).await;
        world.network.repair();
    };
    let (placed, ()) = tokio::join!(calls::place(&world), repair);
    assert!(matches!(placed, Ok(Fenced::Committed(_))), "{placed:?}");
}

#[tokio::test(start_paused = true)]
async fn callers_in_line_are_stored_once_after_a_short_fault() {
    let service = Service::start().await;
    let call = CALLS.iter().find(|call| call.name == "Immediate::store");
    let world = service.world(call.expect("it is listed")).await;
    world.network.fail(Sent::Batch, Failure::Silent);
    let callers = join_all((0..10).map(|_| calls::store_work(&world)));
    let repair = async {
        tokio::time::sleep(SHORT).await;
        world.network.repair();
    };
    let (stored, ()) = tokio::join!(callers, repair);
    let sequences = stored.into_iter().map(|stored| match stored {
        Ok(Settlement::Stored { sequence }) => sequence,
        other => panic!("{other:?}"),
    });
    let sequences: BTreeSet<u64> = sequences.collect();
    assert!(sequences.into_iter().eq(1..=10));
    close(&world).await;
}

#[test]
fn every_public_call_is_on_the_list() {
    let listed: BTreeSet<String> = (CALLS.iter().map(|call| call.name.to_owned()))
        .chain(calls::LEFT_OUT.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    let public = listing::public_calls();
    let missing: Vec<_> = public.difference(&listed).collect();
    assert!(missing.is_empty(), "add a line to calls.rs for {missing:?}");
    let gone: Vec<_> = listed.difference(&public).collect();
    assert!(gone.is_empty(), "calls.rs has lines for {gone:?}");
}
