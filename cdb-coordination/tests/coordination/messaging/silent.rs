//! A physical partition that answers nothing delays only its own messages, and one that answers late
//! is not starved. Time is simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::messaging::MessagingConfig;
use cdb_coordination::{Messaging, OutboxBatch, Received};
use cdb_model::PartitionKey;

use crate::messaging::house::{House, Note, TestEnv, note_down, send};
use crate::silence::{Silence, Silent, is_query};

const SECOND: Duration = Duration::from_secs(1);

/// A search and a delivery wait a second for a partition that stops answering. A check takes the
/// permits of its messages away after half a second more.
const RECEIVED: Duration = Duration::from_secs(4);

struct Fixture {
    env: TestEnv,
    network: Silent,
    range: PhysicalPartitionId,
    sick: Vec<String>,
    sound: Vec<String>,
}

impl Fixture {
    /// `None` on an account.
    async fn start() -> Option<Self> {
        let env = TestEnv::start(4).await;
        let network = Silent::new(env.backend.time.clone()?);
        let mut ranges: BTreeMap<PhysicalPartitionId, Vec<String>> = BTreeMap::new();
        for number in 0..48 {
            let place = format!("place-{number}");
            let range = env
                .house
                .physical_partition_of(&PartitionKey::from(&*place))
                .await;
            let range = range.expect("the ranges are listed").expect("a text");
            ranges.entry(range).or_default().push(place);
        }
        let sender = env
            .house
            .physical_partition_of(&PartitionKey::from("ann"))
            .await;
        let sender = sender.expect("the ranges are listed").expect("a text");
        let range = ranges.keys().find(|range| **range != sender);
        let range = range.expect("there are several").clone();
        let sick = ranges.remove(&range).expect("it has places");
        let sound = ranges.into_values().flatten().collect();
        Some(Self {
            env,
            network,
            range,
            sick,
            sound,
        })
    }

    /// Messaging over the silent network, with handlers that take `duration`.
    fn messaging(&self, duration: Duration) -> Messaging<House> {
        let client = self.env.backend.builder().transport(self.network.clone());
        let client = client.build().expect("an endpoint");
        let house = client
            .database(&self.env.backend.database)
            .container("house");
        let handler = move |note: Received<Note>, batch: OutboxBatch<House>| async move {
            tokio::time::sleep(duration).await;
            note_down(&note.message, batch)
        };
        let config = MessagingConfig::default().with_concurrency(4);
        Messaging::builder(house)
            .config(config)
            .on(handler)
            .start()
            .expect("the durations fit")
    }

    fn silence(&self) {
        self.network
            .set(Silence::of(&self.range.to_string(), &self.sick));
    }

    /// Waits until the note with this number has arrived at these places. Returns the time that this
    /// took.
    async fn until_noted(&self, places: &[String], number: u32) -> Duration {
        let all = places.iter().map(|place| (place.clone(), number));
        let all: BTreeSet<_> = all.collect();
        self.env.until_noted(|noted| noted.is_superset(&all)).await
    }
}

async fn send_all(messaging: &Messaging<House>, places: &[String], number: u32) {
    for places in places.chunks(10) {
        send(messaging, places, number..number + 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_delays_no_message_to_the_others() {
    let fixture = or_skip!(Fixture::start().await);
    let messaging = fixture.messaging(Duration::ZERO);
    let all = [&*fixture.sick, &*fixture.sound].concat();
    send_all(&messaging, &all, 0).await;
    fixture.until_noted(&all, 0).await;
    fixture.silence();
    for number in 1..8 {
        send_all(&messaging, &all, number).await;
        let took = fixture.until_noted(&fixture.sound, number).await;
        assert!(took <= RECEIVED, "note {number} after {took:?}");
    }
    fixture.network.set(Silence::default());
    // The deliveries have failed a few times, and wait for their next attempt.
    let took = fixture.until_noted(&fixture.sick, 7).await;
    assert!(took <= SECOND * 60, "its own messages after {took:?}");
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn receipts_in_a_silent_partition_hold_no_permit() {
    let fixture = or_skip!(Fixture::start().await);
    let messaging = fixture.messaging(SECOND);
    send_all(&messaging, &fixture.sick, 1).await;
    // Its handlers run.
    tokio::time::sleep(Duration::from_millis(500)).await;
    fixture.silence();
    tokio::time::sleep(SECOND).await;
    // Another process has delivered them.
    let other = Messaging::builder(fixture.env.house.clone())
        .start()
        .expect("the durations fit");
    send_all(&other, &fixture.sound[..4], 1).await;
    let took = fixture.until_noted(&fixture.sound[..4], 1).await;
    assert!(took <= RECEIVED + SECOND, "received after {took:?}");
    fixture.network.set(Silence::default());
    let took = fixture.until_noted(&fixture.sick, 1).await;
    println!("its own messages after {took:?}");
    assert!(took <= SECOND * 60, "its own messages after {took:?}");
    messaging.stop().await;
    other.stop().await;
}

/// Sends notes from another process to two places of a partition whose answers to requests of this
/// kind take `delay`. Returns the time until the first notes and until later notes are received.
async fn received_slowly(
    kind: fn(&cdb_client::transport::HttpRequest) -> bool,
    delay: Duration,
) -> Option<(Duration, Duration)> {
    let fixture = Fixture::start().await?;
    let receiver = fixture.messaging(Duration::ZERO);
    let places = &fixture.sick[..2];
    send_all(&receiver, places, 0).await;
    fixture.until_noted(places, 0).await;
    let silence = Silence::of(&fixture.range.to_string(), &fixture.sick).only(kind);
    fixture.network.slow_down(silence, delay);
    // Another process has delivered them.
    let sender = Messaging::builder(fixture.env.house.clone())
        .start()
        .expect("the durations fit");
    send_all(&sender, places, 1).await;
    let first = fixture.until_noted(places, 1).await;
    tokio::time::sleep(SECOND * 10).await;
    let mut later = Duration::ZERO;
    for number in 2..6 {
        send_all(&sender, places, number).await;
        later = later.max(fixture.until_noted(places, number).await);
    }
    receiver.stop().await;
    sender.stop().await;
    Some((first, later))
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_queries_take_long_receives_its_messages() {
    for ms in [500, 900, 1_500, 3_000, 5_000] {
        let delay = Duration::from_millis(ms);
        let (first, later) = or_skip!(received_slowly(is_query, delay).await);
        println!("queries take {delay:?}: received after {first:?}, later ones after {later:?}");
        assert!(first <= RECEIVED + delay * 4, "{delay:?}: {first:?}");
        // The search under way, the next one, and the query of the partition.
        assert!(later <= SECOND * 2 + delay * 3, "{delay:?}: {later:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_requests_take_long_receives_its_messages() {
    for ms in [500, 900, 1_500, 3_000, 5_000] {
        let delay = Duration::from_millis(ms);
        let (first, later) = or_skip!(received_slowly(|_| true, delay).await);
        println!("requests take {delay:?}: received after {first:?}, later ones after {later:?}");
        assert!(first <= RECEIVED + delay * 10, "{delay:?}: {first:?}");
        assert!(later <= RECEIVED + delay * 10, "{delay:?}: {later:?}");
    }
}

/// A request with operations for several logical partitions.
fn is_bulk(request: &cdb_client::transport::HttpRequest) -> bool {
    let atomic = request.headers.get("x-ms-cosmos-batch-atomic");
    atomic.is_some_and(|value| value == "False")
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_another_process_does_not_delay_the_stop() {
    let env = TestEnv::start(1).await;
    let (Some(time), Some(emulator)) = (env.backend.time.clone(), &env.backend.emulator) else {
        return;
    };
    // A process commits 900 messages, and delivers none.
    let network = Silent::new(time);
    network.set(Silence::of("0", [""; 0]).only(is_bulk));
    let client = env.backend.builder().transport(network.clone());
    let client = client.build().expect("an endpoint");
    let house = client.database(&env.backend.database).container("house");
    let dead = Messaging::<House>::builder(house).start().expect("it fits");
    for number in 0..20 {
        send(&dead, &["place"], number * 45..(number + 1) * 45).await;
    }
    drop(dead);
    tokio::time::sleep(SECOND * 4).await;
    let next = Messaging::builder(env.house.clone())
        .start()
        .expect("it fits");
    tokio::time::sleep(MessagingConfig::default().poll_interval + SECOND / 50).await;
    emulator.reset_requests();
    next.stop().await;
    let counts = emulator.requests().counts;
    let rounds = counts.get(&cdb_emulator::OperationKind::Bulk).copied();
    let rounds = rounds.unwrap_or_default();
    println!("{rounds} requests of deliveries before the stop: {counts:?}");
    assert!(
        rounds <= 4,
        "{rounds} requests of deliveries before the stop"
    );
}
