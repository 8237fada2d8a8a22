//! Work that can be handled is handled while other work cannot, with the default durations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_coordination::HandlerError;
use cdb_coordination::membership::{InMemoryLeaseProvider, SlotSet};
use cdb_work::{
    FlushStrategy, Partitions, RunConfig, WorkConfig, WorkContext, WorkCoordinator, WorkHandlers,
};
use tokio::time::Instant;

use crate::attempts::Slots;
use crate::recorded::Recorded;
use crate::test_env::{TestEnv, message, next, one_partition};

/// More streams than a coordinator holds messages in memory.
const STREAMS: usize = 5_100;

const MINUTE: Duration = Duration::from_secs(60);

fn slots(set: SlotSet) -> Arc<Slots> {
    Arc::new(Slots(Mutex::new(set)))
}

/// A coordinator that holds no partition.
pub(crate) async fn sender(env: &TestEnv) -> WorkCoordinator {
    env.open_with(WorkConfig::default(), slots(SlotSet::NONE))
        .await
}

/// Stores messages with these numbers in each of the streams.
async fn store_all(sender: &WorkCoordinator, streams: usize, numbers: &[usize]) {
    let scope = sender.scoped();
    for &number in numbers {
        for stream in 0..streams {
            let name = format!("poison-{stream}");
            scope.store(message(&name, number)).await;
        }
    }
    scope.commit().await.unwrap();
}

/// Handlers that note when they handle each message. They reject messages of streams that are
/// called `poison` as long as they are told to.
#[derive(Clone, Default)]
struct Witness {
    is_cured: Arc<AtomicBool>,
    handled: Arc<Mutex<BTreeMap<(String, String), Instant>>>,
}

impl Witness {
    fn handlers(&self) -> WorkHandlers {
        let this = self.clone();
        WorkHandlers::new().otherwise(move |work: WorkContext| {
            let this = this.clone();
            async move {
                let message = work.message();
                let is_poison = message.stream.starts_with("poison");
                if is_poison && message.message_id == "1" && !this.is_cured.load(Ordering::Relaxed)
                {
                    return Err(HandlerError::permanently("poison"));
                }
                let key = (message.stream.clone(), message.message_id.clone());
                let mut handled = this.handled.lock().unwrap();
                let before = handled.insert(key, Instant::now());
                assert!(before.is_none(), "handled twice: {message:?}");
                Ok(work.done())
            }
        })
    }

    fn count(&self) -> usize {
        self.handled.lock().unwrap().len()
    }

    /// Waits until a message is handled, and returns the time since `from`.
    async fn time_of(&self, stream: &str, from: Instant) -> Duration {
        let key = (stream.to_owned(), "1".to_owned());
        while from.elapsed() < MINUTE {
            if let Some(at) = self.handled.lock().unwrap().get(&key) {
                return at.saturating_duration_since(from);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("`{stream}` is not handled within {MINUTE:?}");
    }
}

/// Stores a message of another stream, and returns the time until it is handled.
async fn other_stream(sender: &WorkCoordinator, witness: &Witness, name: &str) -> Duration {
    let from = Instant::now();
    sender.immediate().store(message(name, 1)).await.unwrap();
    witness.time_of(name, from).await
}

async fn until_set_aside(sender: &WorkCoordinator, count: usize) {
    while sender.dead_letters(10_000).await.unwrap().len() < count {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Redrives all messages that are set aside. Returns the longest time until one of them is handled.
async fn redrive_all(sender: &WorkCoordinator, witness: &Witness) -> Duration {
    witness.is_cured.store(true, Ordering::Relaxed);
    let mut redriven = Vec::new();
    for message in sender.dead_letters(10_000).await.unwrap() {
        sender.redrive(&message).await.unwrap();
        redriven.push((message.stream, Instant::now()));
    }
    let mut longest = Duration::ZERO;
    for (stream, at) in redriven {
        longest = longest.max(witness.time_of(&stream, at).await);
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn streams_with_a_message_that_is_set_aside_stop_no_other_stream() {
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let (work, sender) = (env.open(WorkConfig::default()).await, sender(&env).await);
    let witness = Witness::default();
    let run = work.run(RunConfig::default(), witness.handlers());
    store_all(&sender, STREAMS, &[1]).await;
    until_set_aside(&sender, STREAMS).await;
    let other = other_stream(&sender, &witness, "other").await;
    assert!(other <= Duration::from_secs(2), "{other:?}");
    let longest = redrive_all(&sender, &witness).await;
    assert!(longest <= Duration::from_secs(5), "{longest:?}");
    println!("other stream after {other:?}, redriven after at most {longest:?}");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_owner_pages_past_messages_behind_one_that_is_set_aside() {
    const FEW: usize = 600;
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let mut settings = WorkConfig::default();
    settings.most_in_memory = 500;
    let (work, sender) = (env.open(settings.clone()).await, sender(&env).await);
    let witness = Witness::default();
    let run = work.run(RunConfig::default(), witness.handlers());
    store_all(&sender, FEW, &[1, 2]).await;
    until_set_aside(&sender, FEW).await;
    run.stop().await.unwrap();
    work.shutdown().await.unwrap();
    let work = env.open(settings).await;
    let run = work.run(RunConfig::default(), witness.handlers());
    tokio::time::sleep(Duration::from_secs(15)).await;
    for name in ["other", "another"] {
        let other = other_stream(&sender, &witness, name).await;
        assert!(other <= Duration::from_secs(2), "{other:?}");
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    let longest = redrive_all(&sender, &witness).await;
    assert!(longest <= Duration::from_secs(5), "{longest:?}");
    // The messages behind are found by the next sweep.
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(witness.count(), 2 * FEW + 2);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_behind_a_slow_handler_stop_no_other_stream() {
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let (work, sender) = (env.open(WorkConfig::default()).await, sender(&env).await);
    let scope = sender.scoped();
    for number in 1..=STREAMS {
        scope.store(message("slow", number)).await;
    }
    scope.commit().await.unwrap();
    let slow = next(&work).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let witness = Witness::default();
    let run = work.run(RunConfig::default(), witness.handlers());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let other = other_stream(&sender, &witness, "other").await;
    assert!(other <= Duration::from_secs(2), "{other:?}");
    work.immediate().report(slow.done()).await.unwrap();
    let ended = Instant::now();
    while witness.count() < STREAMS {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(ended.elapsed() < MINUTE * 3, "{}", witness.count());
    }
    println!("the slow stream ends after {:?}", ended.elapsed());
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_for_their_next_attempt_stop_no_other_stream() {
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let mut settings = WorkConfig::default();
    settings.retry.first_delay = MINUTE * 5;
    let (work, sender) = (env.open(settings).await, sender(&env).await);
    store_all(&sender, STREAMS, &[1]).await;
    let scope = work.scoped();
    let mut failed = 0;
    while failed < STREAMS {
        for claimed in work.claim(1_000, Duration::from_secs(1)).await {
            scope.report(claimed.failed("not yet")).await;
            failed += 1;
        }
        scope.flush().await.unwrap();
    }
    let witness = Witness::default();
    let run = work.run(RunConfig::default(), witness.handlers());
    let other = other_stream(&sender, &witness, "other").await;
    assert!(other <= Duration::from_secs(2), "{other:?}");
    run.stop().await.unwrap();
}

/// Returns the name of a stream of a partition.
pub(crate) fn stream_of(partition: u16) -> String {
    let mut names = (0..).map(|number: u32| format!("slow-{number}"));
    let found = names.find(|name| Partitions::default().of_stream(name) == partition);
    found.expect("every partition has streams")
}

#[tokio::test(start_paused = true)]
async fn a_long_handler_runs_once_while_a_member_joins() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let first_slots = slots(SlotSet::ALL);
    let first = env
        .open_with(WorkConfig::default(), first_slots.clone())
        .await;
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let handlers = WorkHandlers::new().otherwise(move |work: WorkContext| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            for _ in 0..3 {
                tokio::time::sleep(MINUTE).await;
                assert!(work.renew(), "the claim is held");
            }
            Ok(work.done())
        }
    });
    let run = first.run(RunConfig::default(), handlers);
    let stream = stream_of(1);
    first.immediate().store(message(&stream, 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    // A member joins: the partition of the handler belongs to the share of the new member.
    *first_slots.0.lock().unwrap() = (0..=254).step_by(2).collect();
    let other = Arc::new(InMemoryLeaseProvider::share(1, 2));
    let second = env.open_with(WorkConfig::default(), other).await;
    tokio::time::sleep(MINUTE * 2).await;
    assert!(first.partitions().contains(&1), "the handler runs");
    assert_eq!(
        (first.partitions().len(), second.partitions().len()),
        (17, 15)
    );
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(starts.load(Ordering::Relaxed), 1);
    assert_eq!(recorded.under("cdb.work.").get("leases lost"), None);
    assert!(second.partitions().contains(&1), "the hand-over has ended");
    run.stop().await.unwrap();
}

/// The names of the streams of a partition.
fn streams_of(partition: u16) -> impl Iterator<Item = String> {
    let names = (0..).map(|number: u32| format!("other-{number}"));
    names.filter(move |name| Partitions::default().of_stream(name) == partition)
}

#[tokio::test(start_paused = true)]
async fn an_endless_handler_stops_no_other_stream_of_a_partition_that_should_move() {
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let first_slots = slots(SlotSet::ALL);
    let settings = WorkConfig::default();
    let first = env.open_with(settings.clone(), first_slots.clone()).await;
    let (sender, stream) = (sender(&env).await, stream_of(1));
    sender.immediate().store(message(&stream, 1)).await.unwrap();
    let endless = Arc::new(next(&first).await);
    let claimed = endless.clone();
    let renewing = tokio::spawn(async move {
        while claimed.renew() {
            tokio::time::sleep(MINUTE).await;
        }
    });
    let witness = Witness::default();
    let run = first.run(RunConfig::default(), witness.handlers());
    *first_slots.0.lock().unwrap() = (0..=254).step_by(2).collect();
    let other = Arc::new(InMemoryLeaseProvider::share(1, 2));
    let _second = env.open_with(settings.clone(), other).await;
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    let mut names = streams_of(1);
    // Two claim timeouts.
    while begun.elapsed() < MINUTE * 11 {
        let name = names.next().expect("there are more names");
        longest = longest.max(other_stream(&sender, &witness, &name).await);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    println!("another stream waited for at most {longest:?}");
    assert!(
        longest <= settings.lease + Duration::from_secs(3),
        "{longest:?}"
    );
    assert!(!renewing.is_finished(), "the claim is held");
    renewing.abort();
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_handlers_overlap_without_a_pause_moves() {
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let first_slots = slots(SlotSet::ALL);
    let settings = WorkConfig::default();
    let first = env.open_with(settings.clone(), first_slots.clone()).await;
    let sender = sender(&env).await;
    let handlers = WorkHandlers::new().otherwise(async |work: WorkContext| {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(work.done())
    });
    let run = first.run(RunConfig::default(), handlers);
    for name in streams_of(1).take(8) {
        let scope = sender.scoped();
        for number in 1..=60 {
            scope.store(message(&name, number)).await;
        }
        scope.commit().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1300)).await;
    }
    *first_slots.0.lock().unwrap() = (0..=254).step_by(2).collect();
    let other = Arc::new(InMemoryLeaseProvider::share(1, 2));
    let second = env.open_with(settings.clone(), other).await;
    let begun = Instant::now();
    while !second.partitions().contains(&1) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(begun.elapsed() < settings.claim_timeout + settings.lease * 2);
    }
    println!("the partition has moved after {:?}", begun.elapsed());
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_suspect_whose_handler_runs_on_delays_the_next_suspect_by_half_a_minute() {
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let mut work = env.open(WorkConfig::default()).await;
    for stream in ["a", "b", "c"] {
        work.immediate().store(message(stream, 1)).await.unwrap();
    }
    for _ in 0..2 {
        let mut claimed = Vec::new();
        while claimed.len() < 3 {
            claimed.extend(work.claim(3, MINUTE).await);
        }
        // As after SIGKILL: the coordinator ends before the claims.
        work = env.open(WorkConfig::default()).await;
        drop(claimed);
    }
    let mut running = work.claim(3, MINUTE).await;
    assert_eq!(running.len(), 1, "one suspect at a time");
    while running.len() < 3 {
        let from = Instant::now();
        running.extend(work.claim(3, MINUTE).await);
        let waited = from.elapsed();
        println!("the next suspect waited for {waited:?}");
        assert!(waited > Duration::from_secs(28), "{waited:?}");
        assert!(waited < Duration::from_secs(33), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_cannot_be_claimed_keep_no_others_out() {
    let env = or_skip!(TestEnv::start_in_simulated_time().await);
    let mut settings = one_partition();
    settings.most_in_memory = 5;
    settings.retry.max_attempts = 1;
    let work = env.open(settings).await;
    let now = work.immediate();
    // A stream behind a message that is set aside, and streams that are not due.
    for n in 1..=8 {
        now.store(message("blocked", n)).await.unwrap();
    }
    now.report(next(&work).await.failed("no")).await.unwrap();
    let tomorrow = env.shop.now() + Duration::from_secs(86_400);
    for n in 1..=8 {
        let later = message(&format!("later-{n}"), 1).not_before(tomorrow);
        now.store(later).await.unwrap();
    }
    // Another process stores a message.
    let other = env.open_share(one_partition(), 1, 2).await;
    other.immediate().store(message("new", 1)).await.unwrap();
    let claimed = next(&work).await;
    assert_eq!(claimed.message().stream, "new");
    now.report(claimed.done()).await.unwrap();
    let aside = work.dead_letters(10).await.unwrap();
    work.redrive(&aside[0]).await.unwrap();
    for n in 1..=8 {
        let claimed = next(&work).await;
        let message = claimed.message();
        assert_eq!((&*message.stream, message.sequence), ("blocked", n));
        now.report(claimed.done()).await.unwrap();
    }
}
