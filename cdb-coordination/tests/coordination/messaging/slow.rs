//! Handlers that take longer than the claim of their message: renewed and lost claims, messages behind a slow handler, and
//! the longest durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cdb_coordination::messaging::{Handled, MessagingConfig};
use cdb_coordination::retry::RetryPolicy;
use cdb_coordination::{HandlerError, MessageDocument, Messaging, OutboxBatch, Received};
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::Query;
use tokio::sync::Semaphore;

use crate::messaging::house::{House, Note, TestEnv, note_down, place_of, send};

/// Waits until this many notes are recorded.
async fn until_noted(env: &TestEnv, count: usize) {
    env.until_noted(|noted| noted.len() >= count).await;
    assert!(env.noted().await.len() >= count, "not received");
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
    ) -> Handled<House> {
        self.started.fetch_add(1, Ordering::SeqCst);
        let dropped = Dropped(self.dropped);
        tokio::time::sleep(duration).await;
        std::mem::forget(dropped);
        note_down(&note.message, batch)
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
    messaging.on(slow).start().expect("the durations fit")
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_five_seconds_runs_once_per_message_in_two_processes() {
    for partitions in [4, 1] {
        let (env, handlers) = (TestEnv::start(1).await, Handlers::default());
        let start = || start_slow(&env, &handlers, Duration::from_secs(5));
        let (first, second) = (start(), start());
        // Both processes search before the first one gets the messages.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let mut batch = first.batch("ann");
        for number in 0..4 {
            let to = format!("to-{}", number % partitions);
            batch.send(&*to, &Note(number)).expect("a note is JSON");
        }
        first.commit(batch).await.expect("a commit");
        until_noted(&env, 4).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(handlers.counts(), (4, 0), "{partitions} partitions");
        assert_eq!(env.noted().await.len(), 4);
        first.stop().await;
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_after_another_process_has_claimed_its_message() {
    let (env, handlers) = (TestEnv::start(1).await, Handlers::default());
    let emulator = or_skip!(&env.backend.emulator);
    let start = || start_slow(&env, &handlers, Duration::from_secs(40));
    let (first, second) = (start(), start());
    // No claim is renewed until another process has claimed the message.
    emulator.inject(Fault::always(Effect::error(400, 0)).on(OperationKind::Patch));
    send(&first, &["bob"], 0..1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    emulator.clear_faults();
    until_noted(&env, 1).await;
    assert_eq!(handlers.counts(), (2, 1));
    // The stream goes on.
    send(&first, &["bob"], 1..2).await;
    until_noted(&env, 2).await;
    assert_eq!(first.dead_letters().count().await.expect("a count"), 0);
    assert_eq!(handlers.counts(), (3, 1));
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_one_partition_does_not_delay_the_others() {
    let env = TestEnv::start(1).await;
    let release = Arc::new(Semaphore::new(0));
    let released = release.clone();
    // A process that only sends, and whose deliveries give no hint to the receiver.
    let sender = env.messaging().start().expect("the durations fit");
    for part in 0..6 {
        send(&sender, &["hot"], part * 50..part * 50 + 50).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    send(&sender, &["bob"], 0..1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let receiver = env
        .messaging()
        .on(move |note: Received<Note>, batch: OutboxBatch<House>| {
            let released = released.clone();
            async move {
                if place_of(&batch) == "hot" {
                    let permit = released.acquire().await;
                    permit.expect("it is open").forget();
                }
                note_down(&note.message, batch)
            }
        });
    let receiver = receiver.start().expect("the durations fit");
    until_noted(&env, 1).await;
    release.add_permits(1_000);
    until_noted(&env, 301).await;
    receiver.stop().await;
    sender.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_received_with_the_longest_durations() {
    let env = TestEnv::start(1).await;
    let longest = MessagingConfig::default()
        .with_claims(Duration::MAX, Duration::MAX)
        .with_retention(Duration::MAX)
        .with_retry(RetryPolicy::default().with_delays(Duration::MAX, Duration::MAX));
    let messaging = env.messaging().config(longest);
    let messaging = messaging.on(async |note: Received<Note>, batch| {
        if note.message.0 == 1 {
            return Err(HandlerError::temporarily("not yet"));
        }
        note_down(&note.message, batch)
    });
    let messaging = messaging.start().expect("the durations fit");
    send(&messaging, &["bob"], 0..2).await;
    until_noted(&env, 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The message that waits for its next attempt can be read.
    let waiting = Query::<MessageDocument<House>>::in_partition("bob");
    env.house.query(waiting).all().await.expect("documents");
    messaging.stop().await;
}
