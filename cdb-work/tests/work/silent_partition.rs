//! A partition that does not answer delays only its own streams, with the default durations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::HandlerError;
use cdb_coordination::membership::{InMemoryLeaseProvider, LeaseProvider};
use cdb_model::{PartitionKey, Query};
use cdb_work::{
    FlushStrategy as _, IntervalConfig, Partitions, Receipt, RunConfig, Settlement, Work,
    WorkConfig, WorkContext, WorkCoordinator, WorkHandlers, WorkMessage, WorkPartition, WorkRun,
};
use tokio::time::Instant;

use crate::attempts::Slots;
use crate::liveness::{sender, stream_of};
use crate::silence::{Silence, Silent, is_query};
use crate::test_env::{TestEnv, message};

const SECOND: Duration = Duration::from_secs(1);

/// A search pauses for a second, and waits a second for a partition that stops answering. The
/// requests themselves take the rest.
const HANDED_OUT: Duration = Duration::from_millis(2_200);

/// A container on four physical partitions. One of them can become silent for a coordinator, and
/// answers all other processes.
struct Fixture {
    env: TestEnv,
    network: Silent,
    sick: Vec<u16>,
    sound: Vec<u16>,
    range: PhysicalPartitionId,
}

impl Fixture {
    /// `None` on an account.
    async fn start() -> Option<Self> {
        let env = TestEnv::start_on(4).await;
        if env.emulator().is_none() {
            println!("skipped: only the emulator has as many physical partitions as a test wants");
            return None;
        }
        let network = Silent::new(env.time()?.clone());
        let range_of = async |name: String| {
            let found = env
                .shop
                .physical_partition_of(&PartitionKey::from(name))
                .await;
            found.unwrap().expect("a text has a range")
        };
        let settings = range_of("work-settings".to_owned()).await;
        let mut ranges: BTreeMap<PhysicalPartitionId, Vec<u16>> = BTreeMap::new();
        for index in 0..32 {
            let range = range_of(Partitions::default().name(index)).await;
            ranges.entry(range).or_default().push(index);
        }
        assert_eq!(ranges.len(), 4, "{ranges:?}");
        let range = ranges.keys().find(|range| **range != settings);
        let range = range.expect("there are several").clone();
        let sick = ranges.remove(&range).unwrap_or_default();
        let sound = ranges.into_values().flatten().collect();
        Some(Self {
            env,
            network,
            sick,
            sound,
            range,
        })
    }

    /// A coordinator of all partitions, for which the physical partition can become silent.
    async fn open(&self) -> WorkCoordinator {
        self.open_with(Arc::new(InMemoryLeaseProvider::all())).await
    }

    async fn open_with(&self, slots: Arc<dyn LeaseProvider>) -> WorkCoordinator {
        let container = self.env.with_default_retry(self.network.clone());
        let work = WorkCoordinator::open(container, slots, WorkConfig::default());
        work.await.unwrap()
    }

    fn silence(&self, only_answers: bool) {
        let names = self.sick.iter().map(|at| Partitions::default().name(*at));
        self.network.executes.store(only_answers, Ordering::SeqCst);
        self.network
            .set(Silence::of(&self.range.to_string(), names));
    }

    fn slow_down(&self, kind: fn(&cdb_client::transport::HttpRequest) -> bool, delay: Duration) {
        let names = self.sick.iter().map(|at| Partitions::default().name(*at));
        let silence = Silence::of(&self.range.to_string(), names).only(kind);
        self.network.slow_down(silence, delay);
    }

    fn repair(&self) {
        self.network.set(Silence::default());
    }
}

/// When messages were stored and handled, by stream and message.
#[derive(Clone, Default)]
struct Times {
    stored: Arc<Mutex<BTreeMap<(String, usize), Instant>>>,
    handled: Arc<Mutex<BTreeMap<(String, usize), Instant>>>,
}

impl Times {
    /// Runs handlers. Every fifth message fails once.
    fn run(&self, work: &WorkCoordinator) -> WorkRun {
        let this = self.clone();
        let handlers = WorkHandlers::new().otherwise(move |work: WorkContext| {
            let this = this.clone();
            async move {
                let WorkMessage {
                    stream,
                    message_id,
                    attempts,
                    ..
                } = work.message();
                let number: usize = message_id.parse().unwrap();
                if stream.starts_with("poison") {
                    return Err(HandlerError::permanently("poison"));
                }
                if number.is_multiple_of(5) && *attempts == 0 {
                    return Err(HandlerError::temporarily("the first attempt fails"));
                }
                let mut handled = this.handled.lock().unwrap();
                handled
                    .entry((stream.clone(), number))
                    .or_insert_with(Instant::now);
                Ok(work.done())
            }
        });
        work.run(RunConfig::default(), handlers)
    }

    /// Stores a message with this number in a stream of each of the partitions.
    async fn store(&self, sender: &WorkCoordinator, partitions: &[u16], number: usize) {
        let scope = sender.scoped();
        for partition in partitions {
            scope.store(message(&stream_of(*partition), number)).await;
        }
        scope.commit().await.unwrap();
        let mut stored = self.stored.lock().unwrap();
        for partition in partitions {
            stored.insert((stream_of(*partition), number), Instant::now());
        }
    }

    /// Returns the messages of the partitions that are not handled.
    fn missing(&self, partitions: &[u16]) -> Vec<(String, usize)> {
        let streams: BTreeSet<String> = partitions.iter().map(|at| stream_of(*at)).collect();
        let handled = self.handled.lock().unwrap();
        let stored = self.stored.lock().unwrap();
        let of_streams = stored.keys().filter(|(stream, _)| streams.contains(stream));
        of_streams
            .filter(|key| !handled.contains_key(*key))
            .cloned()
            .collect()
    }

    /// Waits until the messages of the partitions are handled.
    async fn until_handled(&self, partitions: &[u16]) {
        let from = Instant::now();
        while !self.missing(partitions).is_empty() && from.elapsed() < SECOND * 90 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the first message that is not handled, of each stream, is. Returns the time that
    /// this took.
    async fn until_continued(&self, partitions: &[u16]) -> Duration {
        let from = Instant::now();
        let mut first = self.missing(partitions);
        first.dedup_by(|(next, _), (stream, _)| next == stream);
        let is_over = || {
            let handled = self.handled.lock().unwrap();
            first.iter().all(|key| handled.contains_key(key))
        };
        while !is_over() && from.elapsed() < SECOND * 90 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        from.elapsed()
    }

    /// Returns the longest time from storing a message of the partitions to its handler. One that
    /// fails once has another second for its backoff.
    fn longest(&self, partitions: &[u16]) -> Duration {
        let streams: BTreeSet<String> = partitions.iter().map(|at| stream_of(*at)).collect();
        let handled = self.handled.lock().unwrap();
        let stored = self.stored.lock().unwrap();
        let of_streams = stored
            .iter()
            .filter(|((stream, _), _)| streams.contains(stream));
        let waits = of_streams.map(|(key, at)| {
            let end = handled.get(key).copied().unwrap_or_else(Instant::now);
            let backoff = SECOND * u32::from(key.1.is_multiple_of(5));
            end.saturating_duration_since(*at).saturating_sub(backoff)
        });
        waits.max().unwrap_or_default()
    }
}

async fn streams_of_other_partitions_continue(silent_for: Duration) {
    let fixture = or_skip!(Fixture::start().await);
    let (work, sender) = (fixture.open().await, sender(&fixture.env).await);
    let (times, all) = (Times::default(), [&*fixture.sick, &*fixture.sound].concat());
    let run = times.run(&work);
    let mut numbers = 1..;
    let mut next = || numbers.next().unwrap_or_default();
    for _ in 0..5 {
        times.store(&sender, &all, next()).await;
        times.until_handled(&all).await;
    }
    fixture.silence(false);
    let from = Instant::now();
    while from.elapsed() < silent_for {
        times.store(&sender, &all, next()).await;
        tokio::time::sleep(Duration::from_millis(730)).await;
    }
    times.until_handled(&fixture.sound).await;
    let longest = times.longest(&fixture.sound);
    assert!(longest <= HANDED_OUT, "handed out after {longest:?}");
    assert!(!times.missing(&fixture.sick).is_empty());
    fixture.repair();
    let took = times.until_continued(&fixture.sick).await;
    println!("others within {longest:?}, its own {took:?} after it answers");
    assert!(took <= SECOND * 5, "its own messages after {took:?}");
    times.until_handled(&fixture.sick).await;
    assert_eq!(times.missing(&all), []);
    run.stop().await.unwrap();
    work.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_silent_for_moments_delays_no_message_of_the_others() {
    streams_of_other_partitions_continue(SECOND * 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_delays_no_message_of_the_others() {
    streams_of_other_partitions_continue(SECOND * 12).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_silent_for_longer_than_its_lease_delays_no_message_of_the_others() {
    streams_of_other_partitions_continue(SECOND * 40).await;
}

/// The slots of these of the 32 partitions.
fn slots_of(partitions: &[u16]) -> Arc<Slots> {
    let slots = partitions.iter().map(|at| u8::try_from(*at).unwrap());
    Arc::new(Slots(Mutex::new(slots.collect())))
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_of_another_coordinator_hides_no_message_behind_a_full_page() {
    let fixture = or_skip!(Fixture::start().await);
    let (sick, sound) = (slots_of(&fixture.sick), slots_of(&fixture.sound));
    let other = fixture.env.open_with(WorkConfig::default(), sick).await;
    let work = fixture.open_with(sound).await;
    let sender = sender(&fixture.env).await;
    let times = Times::default();
    let run = times.run(&work);
    fixture.silence(false);
    // The later messages of a stream whose first one is set aside fill a page of each search.
    let mut names = (0..).map(|number: u32| format!("poison-{number}"));
    let is_sound = |name: &String| {
        let partition = Partitions::default().of_stream(name);
        fixture.sound.contains(&partition)
    };
    let poison = names.find(is_sound).unwrap();
    let scope = sender.scoped();
    for number in 1..=400 {
        scope.store(message(&poison, number)).await;
    }
    scope.commit().await.unwrap();
    tokio::time::sleep(SECOND * 5).await;
    for number in 1..=4 {
        times.store(&sender, &fixture.sound, number).await;
        tokio::time::sleep(SECOND * 3).await;
    }
    let longest = times.longest(&fixture.sound);
    assert!(longest <= HANDED_OUT, "handed out after {longest:?}");
    fixture.repair();
    run.stop().await.unwrap();
    work.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}

/// Waits for a receipt. Returns how long this took.
async fn settled(receipt: Receipt, from: Instant) -> Duration {
    let settled = receipt.settled().await;
    assert!(
        matches!(settled, Ok(Settlement::Stored { .. })),
        "{settled:?}"
    );
    from.elapsed()
}

async fn entries_of_other_partitions_are_written(only_answers: bool) {
    let fixture = or_skip!(Fixture::start().await);
    let work = fixture.open().await;
    let interval = work.interval(IntervalConfig::default());
    fixture.silence(only_answers);
    let (from, mut number) = (Instant::now(), 0);
    let (mut sound, mut sick) = (Vec::new(), Vec::new());
    while from.elapsed() < SECOND * 20 {
        number += 1;
        for (partitions, settling) in [(&fixture.sound, &mut sound), (&fixture.sick, &mut sick)] {
            for partition in partitions {
                let receipt = interval
                    .store(message(&stream_of(*partition), number))
                    .await;
                settling.push(tokio::spawn(settled(receipt, Instant::now())));
            }
        }
        tokio::time::sleep(Duration::from_millis(370)).await;
    }
    let mut longest = Duration::ZERO;
    for settled in sound {
        longest = longest.max(settled.await.unwrap());
    }
    assert!(longest <= SECOND * 2, "written after {longest:?}");
    fixture.repair();
    let from = Instant::now();
    for settled in sick {
        settled.await.unwrap();
    }
    let took = from.elapsed();
    println!("others within {longest:?}, its own {took:?} after it answers");
    assert!(took <= SECOND * 5, "its own entries after {took:?}");
    let stored = fixture.env.container::<Work>();
    let query = Query::<WorkMessage>::across_partitions();
    assert_eq!(stored.query(query).all().await.unwrap().len(), number * 32);
    interval.close().await.unwrap();
    work.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_delays_no_entry_of_the_others() {
    entries_of_other_partitions_are_written(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_executes_without_an_answer_stores_each_entry_once() {
    entries_of_other_partitions_are_written(true).await;
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_takes_the_partitions_that_answer() {
    let fixture = or_skip!(Fixture::start().await);
    let sender = sender(&fixture.env).await;
    // The client knows its physical partitions after the first request.
    fixture.silence(false);
    let from = Instant::now();
    let work = fixture.open().await;
    let mut sound = fixture.sound.clone();
    sound.sort_unstable();
    assert_eq!(work.partitions(), sound);
    let took = from.elapsed();
    assert!(took <= SECOND * 2, "taken after {took:?}");
    let times = Times::default();
    let run = times.run(&work);
    times.store(&sender, &fixture.sound, 1).await;
    times.until_handled(&fixture.sound).await;
    let longest = times.longest(&fixture.sound);
    assert!(longest <= HANDED_OUT, "handed out after {longest:?}");
    fixture.repair();
    times.store(&sender, &fixture.sick, 1).await;
    let took = times.until_continued(&fixture.sick).await;
    assert!(took <= SECOND * 5, "its own messages after {took:?}");
    run.stop().await.unwrap();
    work.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn partitions_without_an_answer_delay_no_renewal_of_the_others() {
    let env = TestEnv::start().await;
    let time = or_skip!(env.time(), "needs the emulator");
    let network = Silent::new(time.clone());
    let mut settings = WorkConfig::default();
    settings.partitions = Partitions::new(256).unwrap();
    settings.forget = Duration::from_secs(30);
    let slots = Arc::new(InMemoryLeaseProvider::all());
    let work = WorkCoordinator::open(
        env.with_default_retry(network.clone()),
        slots,
        settings.clone(),
    );
    let work = work.await.unwrap();
    let sick = (0..256).step_by(2);
    let sick: BTreeSet<String> = sick.map(|at| settings.partitions.name(at)).collect();
    // The only physical partition, which serves all queries across partitions.
    network.set(Silence::of("0", &sick));
    let leases = env.container::<Work>();
    let mut least = settings.lease;
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let query = Query::<WorkPartition>::across_partitions();
        for stored in leases.query(query).all().await.unwrap() {
            let partition = stored.document;
            if !sick.contains(&partition.partition) {
                least = least.min(partition.until.since(leases.now()));
            }
        }
    }
    println!("a healthy lease had at least {least:?} left");
    assert!(least > settings.lease / 6, "{least:?}");
    drop(work);
}

/// Messages of another process, in a partition whose queries take `delay`. Returns the longest time
/// until one is handled, of the first three rounds and of later rounds.
async fn handled_slowly(delay: Duration) -> Option<(Duration, Duration)> {
    let fixture = Fixture::start().await?;
    let work = fixture.open().await;
    let other = sender(&fixture.env).await;
    let times = Times::default();
    let run = times.run(&work);
    fixture.slow_down(is_query, delay);
    let all = [&*fixture.sick, &*fixture.sound].concat();
    let mut longest = Vec::new();
    for numbers in [1..4, 6..9] {
        for number in numbers {
            times.store(&other, &all, number).await;
            tokio::time::sleep(SECOND * 2).await;
        }
        times.until_handled(&all).await;
        assert_eq!(times.missing(&all), [], "{delay:?}");
        longest.push(times.longest(&all));
        times.stored.lock().unwrap().clear();
    }
    run.stop().await.unwrap();
    work.shutdown().await.unwrap();
    Some((longest[0], longest[1]))
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_queries_take_long_gets_its_messages_handled() {
    for ms in [500, 900, 1_500, 3_000, 5_000] {
        let delay = Duration::from_millis(ms);
        let (first, later) = or_skip!(handled_slowly(delay).await);
        println!("queries take {delay:?}: handled after {first:?}, later ones after {later:?}");
        assert!(first <= SECOND * 3 + delay * 4, "{delay:?}: {first:?}");
        assert!(later <= SECOND * 2 + delay * 2, "{delay:?}: {later:?}");
    }
}
