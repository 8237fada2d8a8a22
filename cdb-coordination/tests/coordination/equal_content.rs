//! Judges writers of equal content while requests and answers are lost: what they are told adds up to
//! what is stored. A case is a seed; `judge(seed)` repeats it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::transport::{
    Delivery, HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError,
};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, Error, MasterKey};
use cdb_coordination::Repository;
use cdb_coordination::repository::RepositoryError;
use cdb_emulator::{Effect, Emulator, Fault};
use cdb_model::document::DocumentAddress;
use cdb_model::{Container, Document, ETag};
use futures::future::join_all;
use serde::{Deserialize, Serialize};

/// More than all deadlines of a call, and more than the latest arrival of a request.
const LONG: Duration = Duration::from_secs(300);

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "counter", id = "counter")]
struct Counter {
    #[document(partition_key)]
    place: String,
    count: u32,
}

#[derive(Container)]
enum Counters {
    Counter(Counter),
}

/// Deterministic random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let bound = u64::try_from(choices.len()).expect("few choices");
        choices[usize::try_from(self.below(bound)).expect("few choices")]
    }
}

/// The network of one writer, and what it has seen since the last question.
#[derive(Clone)]
struct Wire {
    emulator: Arc<Emulator>,
    /// A write was answered with a success.
    is_proven: Arc<AtomicBool>,
    /// A write had no answer, or one that may follow its effect.
    is_doubtful: Arc<AtomicBool>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let is_write = ["PUT", "DELETE"].contains(&request.method.as_str())
            || (request.method == "POST" && request.url.ends_with("/docs"));
        // Until the answer: the client may give up before.
        let doubted = self.is_doubtful.fetch_or(is_write, Ordering::Relaxed);
        let mut sent = http::Request::new(request.body);
        *sent.method_mut() = request.method;
        *sent.uri_mut() = request.url.parse().expect("an address");
        *sent.headers_mut() = request.headers;
        let emulator = self.emulator.clone();
        // As a server, the emulator executes a request that the client has given up.
        let handled = tokio::spawn(async move { emulator.handle(sent).await });
        let handled = handled.await.expect("the emulator does not panic");
        let answer = handled.map_err(|broken| TransportError {
            delivery: Delivery::Unknown,
            message: broken.to_string(),
            source: None,
        })?;
        let (head, body) = answer.into_parts();
        let status = head.status.as_u16();
        if is_write && !matches!(status, 408 | 500..) {
            self.is_doubtful.store(doubted, Ordering::Relaxed);
            self.is_proven.fetch_or(status < 300, Ordering::Relaxed);
        }
        Ok(HttpResponse {
            status,
            headers: head.headers,
            body,
        })
    }
}

/// What a call has told its writer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Done,
    NotDone,
    Undecided,
}

struct Writer {
    wire: Wire,
    counters: ContainerClient<Counters>,
}

impl Writer {
    fn new(emulator: &Arc<Emulator>, time: &SimulatedTime) -> Self {
        let wire = Wire {
            emulator: emulator.clone(),
            is_proven: Arc::default(),
            is_doubtful: Arc::default(),
        };
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).expect("a key"))
            .transport(wire.clone())
            .clock_of(time)
            .build()
            .expect("an endpoint");
        let counters = client.database("db").container("counters");
        Self { wire, counters }
    }

    fn store(&self) -> Repository<Counters, Counter> {
        Repository::new(&self.counters)
    }

    /// Makes a call. Fails if it contradicts the answers to its writes.
    async fn call<T, E: fmt::Display>(
        &self,
        call: impl Future<Output = Result<T, E>>,
        is_undecided: impl Fn(&E) -> bool,
    ) -> Told {
        let Wire {
            is_proven,
            is_doubtful,
            ..
        } = &self.wire;
        is_proven.store(false, Ordering::Relaxed);
        is_doubtful.store(false, Ordering::Relaxed);
        let outcome = call.await;
        let is_proven = is_proven.load(Ordering::Relaxed);
        match outcome {
            Ok(_) => Told::Done,
            Err(error) => {
                assert!(!is_proven, "a write succeeded, and the call says: {error}");
                if is_undecided(&error) {
                    let is_doubtful = is_doubtful.load(Ordering::Relaxed);
                    assert!(
                        is_doubtful,
                        "no answer was lost, and the call says: {error}"
                    );
                    Told::Undecided
                } else {
                    Told::NotDone
                }
            }
        }
    }
}

/// Several writers and the service.
struct House {
    emulator: Arc<Emulator>,
    writers: Vec<Writer>,
    /// Loses nothing.
    judge: ContainerClient<Counters>,
}

impl House {
    async fn open() -> Self {
        let time = SimulatedTime::new();
        let emulator = Emulator::builder().clock(time.clock()).start_in_process();
        let emulator = Arc::new(emulator.expect("the emulator starts"));
        let writers: Vec<_> = (0..6).map(|_| Writer::new(&emulator, &time)).collect();
        let judge = writers[5].counters.clone();
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).expect("a key"))
            .transport(writers[5].wire.clone())
            .clock_of(&time)
            .build()
            .expect("an endpoint");
        let database = client.database("db");
        let opened = database.bootstrap::<Counters>("counters", Bootstrap::CreateIfMissing);
        opened.await.expect("a container");
        Self {
            emulator,
            writers,
            judge,
        }
    }

    /// Loses some of the requests and answers of this case.
    fn disturb(&self, random: &mut Random) {
        let late = Duration::from_millis(random.below(40_000));
        for effect in [
            Effect::DropRequest,
            Effect::DropAnswer,
            Effect::StatusAfterEffect { status: 500 },
            // As by a proxy.
            Effect::StatusAfterEffect { status: 503 },
            Effect::error(408, 0),
            Effect::Delay(late.into()),
        ] {
            let probability = random.one_of(&[0.0, 0.05, 0.1, 0.3]);
            if probability > 0.0 {
                self.emulator
                    .inject(Fault::with_probability(effect, probability));
            }
        }
        let seed = random.below(u64::MAX);
        let seeded = self.emulator.change(|settings| settings.seed(seed));
        seeded.expect("a valid setting");
    }

    /// Waits for late requests. Returns the stored document.
    async fn settled(&self, place: &str) -> Option<(u32, ETag)> {
        self.emulator.clear_faults();
        tokio::time::sleep(LONG).await;
        let key = at(place);
        let found = self.judge.latest_committed().read(key).await;
        let found = found.expect("nothing is lost any more");
        found.map(|found| (found.document.count, found.etag))
    }

    /// Runs one case.
    async fn judge(&self, seed: u64) {
        let mut random = Random(seed);
        let place = format!("place-{seed}");
        let play = random.below(4);
        let writers = 2 + usize::try_from(random.below(4)).expect("few writers");
        let writers = &self.writers[..writers];
        let first = counter(&place, 0);
        if play != 2 {
            let created = self.judge.run(first.create()).await;
            created.expect("nothing is lost yet");
        }
        self.disturb(&mut random);
        match play {
            0 => self.increments(&place, writers, &mut random).await,
            1 => self.replacements(&place, writers, &mut random).await,
            2 => self.creations(&place, writers).await,
            _ => self.deletions(&place, writers).await,
        }
    }

    /// The final count is the number of successes, up to those that are undecided.
    async fn increments(&self, place: &str, writers: &[Writer], random: &mut Random) {
        let times = 1 + random.below(4);
        let told = join_all(writers.iter().map(|writer| async move {
            let mut told = Vec::new();
            for _ in 0..times {
                let key = at(place);
                let update = writer.counters.update(key, |counter| counter.count += 1);
                told.push(writer.call(update, Error::is_ambiguous).await);
            }
            told
        }));
        let told = told.await.concat();
        let (count, _) = self.settled(place).await.expect("it was not deleted");
        let (done, undecided) = (number(&told, Told::Done), number(&told, Told::Undecided));
        assert!(
            (done..=done + undecided).contains(&count),
            "counted {count}: {told:?}"
        );
    }

    /// Each version is replaced by one success at most, and so often is the count raised.
    async fn replacements(&self, place: &str, writers: &[Writer], random: &mut Random) {
        let times = 1 + random.below(4);
        let told = join_all(writers.iter().map(|writer| async move {
            let (store, mut told) = (writer.store(), Vec::new());
            for _ in 0..times {
                let Ok(Some(mut seen)) = store.find(at(place)).await else {
                    continue;
                };
                seen.document.count += 1;
                let replaced = store.run(seen.replace());
                let outcome = writer.call(replaced, RepositoryError::is_ambiguous).await;
                told.push((seen.etag, outcome));
            }
            told
        }));
        let told = told.await.concat();
        let (count, _) = self.settled(place).await.expect("it was not deleted");
        at_most_one_per_version(&told);
        let all: Vec<Told> = told.iter().map(|(_, told)| *told).collect();
        let (done, undecided) = (number(&all, Told::Done), number(&all, Told::Undecided));
        assert!(
            (done..=done + undecided).contains(&count),
            "counted {count}: {told:?}"
        );
    }

    /// One success at most, and one document if there was a success.
    async fn creations(&self, place: &str, writers: &[Writer]) {
        let told = join_all(writers.iter().enumerate().map(|(at, writer)| async move {
            let (store, new) = (writer.store(), counter(place, 1));
            // Half of them without a store.
            if at % 2 == 0 {
                writer
                    .call(store.run(new.create()), RepositoryError::is_ambiguous)
                    .await
            } else {
                let created = writer.counters.run(new.create());
                writer.call(created, Error::is_ambiguous).await
            }
        }));
        let told = told.await;
        let stored = self.settled(place).await;
        let (done, undecided) = (number(&told, Told::Done), number(&told, Told::Undecided));
        assert!(done <= 1, "{told:?}");
        assert!(done == 0 || stored.is_some(), "{told:?}");
        assert!(done + undecided > 0 || stored.is_none(), "{told:?}");
    }

    /// Each version is deleted by one success at most.
    async fn deletions(&self, place: &str, writers: &[Writer]) {
        let told = join_all(writers.iter().map(|writer| async move {
            let store = writer.store();
            let Ok(Some(seen)) = store.find(at(place)).await else {
                return None;
            };
            let deleted = store.run(seen.delete());
            let told = writer.call(deleted, RepositoryError::is_ambiguous).await;
            Some((seen.etag, told))
        }));
        let told: Vec<_> = told.await.into_iter().flatten().collect();
        let stored = self.settled(place).await;
        at_most_one_per_version(&told);
        let decided = |wanted| told.iter().any(|(_, told)| *told == wanted);
        assert!(!(decided(Told::Done) && stored.is_some()), "{told:?}");
        assert!(
            stored.is_some() || decided(Told::Done) || decided(Told::Undecided),
            "{told:?}"
        );
    }
}

fn at_most_one_per_version(told: &[(ETag, Told)]) {
    let mut replaced: Vec<&ETag> = told
        .iter()
        .filter(|(_, told)| *told == Told::Done)
        .map(|(etag, _)| etag)
        .collect();
    let successes = replaced.len();
    replaced.sort_unstable_by_key(|etag| etag.as_str());
    replaced.dedup();
    assert_eq!(replaced.len(), successes, "{told:?}");
}

fn number(told: &[Told], wanted: Told) -> u32 {
    let number = told.iter().filter(|told| **told == wanted).count();
    u32::try_from(number).expect("few calls")
}

fn at(place: &str) -> DocumentAddress<Counter> {
    CounterKey::new().in_partition(place)
}

fn counter(place: &str, count: u32) -> Counter {
    Counter {
        place: place.to_owned(),
        count,
    }
}

async fn judge(seeds: std::ops::Range<u64>) {
    let mut house = House::open().await;
    for seed in seeds {
        if seed % 500 == 0 {
            house = House::open().await;
        }
        let judged = std::panic::AssertUnwindSafe(house.judge(seed));
        let judged = futures::FutureExt::catch_unwind(judged).await;
        assert!(judged.is_ok(), "seed {seed} fails");
    }
}

#[tokio::test(start_paused = true)]
async fn what_writers_of_equal_content_are_told_adds_up() {
    judge(0..300).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a soak of 10,000 cases, some minutes"]
async fn what_writers_of_equal_content_are_told_adds_up_in_ten_thousand_cases() {
    judge(1_000..11_000).await;
}
