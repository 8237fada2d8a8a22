//! A physical partition that answers nothing delays only its own messages. Time is simulated.

mod backend;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backend::Backend;
use cdb_client::{
    Bootstrap, ContainerClient, HttpRequest, HttpResponse, RangeId, SimulatedTime, Transport,
    TransportError, async_trait,
};
use cdb_coordination::{
    Message, MessageDocument, Messaging, MessagingConfig, OutboxBatch, Received,
};
use cdb_model::{Container, Document, PartitionKey, Query};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// A search and a delivery wait a second for a partition that stops answering. A check takes the
/// permits of its messages away after half a second more.
const RECEIVED: Duration = Duration::from_secs(4);

/// The effect of one note.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "noted", id = "{place}:noted:{number}")]
struct Noted {
    #[document(partition_key)]
    place: String,
    number: u32,
}

#[derive(Container)]
#[container(partition_key = "/place")]
enum House {
    Noted(Noted),
    Message(MessageDocument<House>),
}

#[derive(Serialize, Deserialize)]
struct Note {
    to: String,
    number: u32,
}

impl Message for Note {
    const TYPE: &'static str = "note";
}

/// A network on which a physical partition can be silent.
#[derive(Clone, Debug)]
struct Silent {
    network: SimulatedTime,
    range: String,
    places: BTreeSet<String>,
    cut_off: Arc<Mutex<bool>>,
}

impl Silent {
    fn concerns(&self, request: &HttpRequest) -> bool {
        let header = |name: &str| {
            let value = request.headers.get(name)?;
            value.to_str().ok()
        };
        if let Some(range) = header("x-ms-documentdb-partitionkeyrangeid") {
            return range == self.range;
        }
        match header("x-ms-documentdb-partitionkey") {
            Some(key) => self.places.contains(key),
            None => header("x-ms-documentdb-query-enablecrosspartition").is_some(),
        }
    }

    fn set(&self, is_silent: bool) {
        *self.cut_off.lock().expect("no panic") = is_silent;
    }
}

#[async_trait]
impl Transport for Silent {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if *self.cut_off.lock().expect("no panic") && self.concerns(&request) {
            std::future::pending::<()>().await;
        }
        self.network.send(request).await
    }
}

struct Fixture {
    backend: Backend,
    house: ContainerClient<House>,
    silent: Silent,
    sick: Vec<String>,
    sound: Vec<String>,
}

impl Fixture {
    /// `None` on an account.
    async fn start() -> Option<Self> {
        let backend = Backend::start(4, Some(SimulatedTime::new())).await;
        let network = backend.time.clone()?;
        let database = backend.database();
        let house = database.bootstrap("house", Bootstrap::CreateIfMissing);
        let house: ContainerClient<House> = house.await.expect("a container");
        let mut ranges: BTreeMap<RangeId, Vec<String>> = BTreeMap::new();
        for number in 0..48 {
            let place = format!("place-{number}");
            let range = house.range_of(&PartitionKey::from(&*place)).await;
            let range = range.expect("the ranges are listed").expect("a text");
            ranges.entry(range).or_default().push(place);
        }
        let sender = house.range_of(&PartitionKey::from("ann")).await;
        let sender = sender.expect("the ranges are listed").expect("a text");
        let range = ranges.keys().find(|range| **range != sender);
        let range = range.expect("there are several").clone();
        let sick = ranges.remove(&range).expect("it has places");
        let silent = Silent {
            network,
            range: range.to_string(),
            places: sick.iter().map(|place| format!("[\"{place}\"]")).collect(),
            cut_off: Arc::default(),
        };
        let sound = ranges.into_values().flatten().collect();
        Some(Self {
            backend,
            house,
            silent,
            sick,
            sound,
        })
    }

    /// Messaging over the silent network, with handlers that take `duration`.
    fn messaging(&self, duration: Duration) -> Messaging<House> {
        let client = self.backend.builder().transport(self.silent.clone());
        let client = client.build().expect("an endpoint");
        let house = client.database(&self.backend.database).container("house");
        let handler = move |note: Received<Note>, mut batch: OutboxBatch<House>| async move {
            tokio::time::sleep(duration).await;
            let Note { to: place, number } = note.message;
            batch.changes().create(&Noted { place, number })?;
            Ok(batch)
        };
        let config = MessagingConfig::default().with_concurrency(4);
        Messaging::builder(house).config(config).on(handler).start()
    }

    async fn noted(&self) -> BTreeSet<(String, u32)> {
        let all = self.house.query(Query::<Noted>::across_partitions()).all();
        let all = all.await.expect("a query").into_iter();
        all.map(|noted| (noted.document.place, noted.document.number))
            .collect()
    }

    /// Waits until the note with this number has arrived at these places. Returns the time that this
    /// took.
    async fn until_noted(&self, places: &[String], number: u32) -> Duration {
        let from = Instant::now();
        loop {
            let noted = self.noted().await;
            let is_noted = |place: &String| noted.contains(&(place.clone(), number));
            if places.iter().all(is_noted) || from.elapsed() > SECOND * 120 {
                return from.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn send(messaging: &Messaging<House>, places: &[String], number: u32) {
    for places in places.chunks(10) {
        let mut batch = messaging.batch("ann");
        for place in places {
            let to = place.clone();
            batch.send(place, &Note { to, number }).expect("JSON");
        }
        messaging.commit(batch).await.expect("a commit");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_delays_no_message_to_the_others() {
    let Some(fixture) = Fixture::start().await else {
        return;
    };
    let messaging = fixture.messaging(Duration::ZERO);
    let all = [&*fixture.sick, &*fixture.sound].concat();
    send(&messaging, &all, 0).await;
    fixture.until_noted(&all, 0).await;
    fixture.silent.set(true);
    for number in 1..8 {
        send(&messaging, &all, number).await;
        let took = fixture.until_noted(&fixture.sound, number).await;
        assert!(took <= RECEIVED, "note {number} after {took:?}");
    }
    fixture.silent.set(false);
    // The deliveries have failed a few times, and wait for their next attempt.
    let took = fixture.until_noted(&fixture.sick, 7).await;
    assert!(took <= SECOND * 60, "its own messages after {took:?}");
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn receipts_in_a_silent_partition_hold_no_permit() {
    let Some(fixture) = Fixture::start().await else {
        return;
    };
    let messaging = fixture.messaging(SECOND);
    send(&messaging, &fixture.sick, 1).await;
    // Its handlers run.
    tokio::time::sleep(Duration::from_millis(500)).await;
    fixture.silent.set(true);
    tokio::time::sleep(SECOND).await;
    // Another process has delivered them.
    let other = Messaging::builder(fixture.house.clone()).start();
    send(&other, &fixture.sound[..4], 1).await;
    let took = fixture.until_noted(&fixture.sound[..4], 1).await;
    assert!(took <= RECEIVED + SECOND, "received after {took:?}");
    fixture.silent.set(false);
    let took = fixture.until_noted(&fixture.sick, 1).await;
    println!("its own messages after {took:?}");
    assert!(took <= SECOND * 60, "its own messages after {took:?}");
    messaging.stop().await;
    other.stop().await;
}
