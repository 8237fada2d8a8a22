//! Handlers that take longer than the claim of their message: renewed and lost claims, messages behind a slow handler, and
//! the longest durations.

mod backend;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backend::Backend;
use cdb_client::{Bootstrap, ContainerClient, SimulatedTime};
use cdb_coordination::{
    Failed, Message, MessageDocument, Messaging, MessagingBuilder, MessagingConfig, OutboxBatch,
    Received, RetryPolicy,
};
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

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

struct TestEnv {
    backend: Backend,
    house: ContainerClient<House>,
}

impl TestEnv {
    async fn new() -> Self {
        let backend = Backend::start(1, Some(SimulatedTime::new())).await;
        let database = backend.database();
        let house = database.bootstrap("house", Bootstrap::CreateIfMissing);
        let house = house.await.expect("a container");
        Self { backend, house }
    }

    /// Messaging of another process.
    fn messaging(&self) -> MessagingBuilder<House> {
        let house = self.backend.database().container("house");
        Messaging::builder(house).config(
            MessagingConfig::default()
                .with_claims(Duration::from_millis(200), Duration::from_millis(500))
                .with_poll_interval(Duration::from_millis(50)),
        )
    }

    async fn noted(&self) -> u64 {
        let count = Query::<Noted>::across_partitions().count();
        let count = self.house.query(count).first().await;
        count.expect("a query").expect("a count")
    }

    async fn until_noted(&self, count: u64) {
        // Far longer than any of the handlers.
        for _ in 0..2_000 {
            if self.noted().await >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not received");
    }
}

async fn send(messaging: &Messaging<House>, to: &str, numbers: std::ops::Range<u32>) {
    let mut batch = messaging.batch("ann");
    for number in numbers {
        let to = to.to_owned();
        let note = Note { to, number };
        batch.send(&*note.to, &note).expect("a note is JSON");
    }
    messaging.commit(batch).await.expect("a commit");
}

fn note_down(note: Note, mut batch: OutboxBatch<House>) -> cdb_coordination::Handled<House> {
    let (place, number) = (note.to, note.number);
    batch.changes().create(&Noted { place, number })?;
    Ok(batch)
}

/// Counts handlers that were started, and those that were dropped before their end.
#[derive(Clone, Default)]
struct Handlers {
    started: Arc<AtomicU32>,
    dropped: Arc<AtomicU32>,
}

impl Handlers {
    /// Runs a slow handler.
    async fn note_down(
        self,
        duration: Duration,
        note: Received<Note>,
        batch: OutboxBatch<House>,
    ) -> cdb_coordination::Handled<House> {
        self.started.fetch_add(1, Ordering::SeqCst);
        let dropped = Dropped(self.dropped);
        tokio::time::sleep(duration).await;
        std::mem::forget(dropped);
        note_down(note.message, batch)
    }

    fn counts(&self) -> (u32, u32) {
        let count = |counter: &AtomicU32| counter.load(Ordering::SeqCst);
        (count(&self.started), count(&self.dropped))
    }
}

/// Counts its drop.
struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Starts messaging of a process with the default configuration and slow handlers.
fn start_slow(env: &TestEnv, handlers: &Handlers, duration: Duration) -> Messaging<House> {
    let handlers = handlers.clone();
    let messaging = env.messaging().config(MessagingConfig::default());
    let slow = move |note, batch| handlers.clone().note_down(duration, note, batch);
    messaging.on(slow).start()
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_five_seconds_runs_once_per_message_in_two_processes() {
    for partitions in [4, 1] {
        let (env, handlers) = (TestEnv::new().await, Handlers::default());
        let start = || start_slow(&env, &handlers, Duration::from_secs(5));
        let (first, second) = (start(), start());
        // Both processes search before the first one gets the messages.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let mut batch = first.batch("ann");
        for number in 0..4 {
            let to = format!("to-{}", number % partitions);
            let note = Note { to, number };
            batch.send(&*note.to, &note).expect("a note is JSON");
        }
        first.commit(batch).await.expect("a commit");
        env.until_noted(4).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(handlers.counts(), (4, 0), "{partitions} partitions");
        assert_eq!(env.noted().await, 4);
        first.stop().await;
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_after_another_process_has_claimed_its_message() {
    let (env, handlers) = (TestEnv::new().await, Handlers::default());
    let Some(emulator) = &env.backend.emulator else {
        return;
    };
    let start = || start_slow(&env, &handlers, Duration::from_secs(40));
    let (first, second) = (start(), start());
    // No claim is renewed until another process has claimed the message.
    emulator.inject(Fault::always(Effect::error(400, 0)).on(OperationKind::Patch));
    send(&first, "bob", 0..1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    emulator.clear_faults();
    env.until_noted(1).await;
    assert_eq!(handlers.counts(), (2, 1));
    // The stream goes on.
    send(&first, "bob", 1..2).await;
    env.until_noted(2).await;
    assert_eq!(first.dead_letters().count().await.expect("a count"), 0);
    assert_eq!(handlers.counts(), (3, 1));
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_one_partition_does_not_delay_the_others() {
    let env = TestEnv::new().await;
    let release = Arc::new(Semaphore::new(0));
    let released = release.clone();
    // A process that only sends, and whose deliveries give no hint to the receiver.
    let sender = env.messaging().start();
    for part in 0..6 {
        send(&sender, "hot", part * 50..part * 50 + 50).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    send(&sender, "bob", 0..1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let receiver = env.messaging().on(move |note: Received<Note>, batch| {
        let released = released.clone();
        async move {
            if note.message.to == "hot" {
                let permit = released.acquire().await;
                permit.expect("it is open").forget();
            }
            note_down(note.message, batch)
        }
    });
    let receiver = receiver.start();
    env.until_noted(1).await;
    release.add_permits(1_000);
    env.until_noted(301).await;
    receiver.stop().await;
    sender.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_received_with_the_longest_durations() {
    let env = TestEnv::new().await;
    let longest = MessagingConfig::default()
        .with_claims(Duration::MAX, Duration::MAX)
        .with_retention(Duration::MAX)
        .with_retry(RetryPolicy::default().with_delays(Duration::MAX, Duration::MAX));
    let messaging = env.messaging().config(longest);
    let messaging = messaging.on(async |note: Received<Note>, batch| {
        if note.message.number == 1 {
            return Err(Failed::temporarily("not yet"));
        }
        note_down(note.message, batch)
    });
    let messaging = messaging.start();
    send(&messaging, "bob", 0..2).await;
    env.until_noted(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The message that waits for its next attempt can be read.
    let waiting = Query::<MessageDocument<House>>::in_partition("bob");
    env.house.query(waiting).all().await.expect("documents");
    messaging.stop().await;
}
