//! Claims whose searches take long.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_work::{FlushStrategy as _, Lane, WorkBatch, WorkConfig, WorkCoordinator, WorkEntry};
use tokio::time::Instant;

use crate::liveness::sender;
use crate::test_env::{TestEnv, applied, message};

/// A stream whose messages are written slowly.
const SLOW: &str = "slow-stream";

/// A network whose searches take this long, and writes of the slow stream almost their deadline.
#[derive(Debug)]
struct SlowSearches(SimulatedTime, Duration);

#[async_trait]
impl Transport for SlowSearches {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let body = String::from_utf8_lossy(&request.body);
        if body.contains("ORDER BY") {
            tokio::time::sleep(self.1).await;
        } else if body.contains(SLOW) {
            tokio::time::sleep(Duration::from_millis(29_500)).await;
        }
        drop(body);
        self.0.send(request).await
    }
}

/// A search that ended with its claim would end with the next one, too: the pause after it is as
/// long as a claim.
#[tokio::test(start_paused = true)]
async fn claims_that_wait_as_long_as_a_search_pauses_find_messages() {
    const PAUSE: Duration = Duration::from_secs(30);
    let env = TestEnv::start().await;
    let time = or_skip!(env.time(), "needs the emulator");
    let mut settings = WorkConfig::default();
    (settings.longest_pause, settings.sweep) = (PAUSE, PAUSE);
    let slots = Arc::new(InMemoryLeaseProvider::all());
    let network = SlowSearches(time.clone(), Duration::from_secs(2));
    let work = WorkCoordinator::open(env.with_default_retry(network), slots, settings);
    let work = work.await.unwrap();
    let sender = sender(&env).await;
    for number in 1..=20 {
        // The searches come at any time of the claims.
        let shift = Duration::from_millis(1_700 * number as u64);
        for wait in [shift, PAUSE, PAUSE, PAUSE, PAUSE, PAUSE, PAUSE] {
            assert!(work.claim(1, wait).await.is_empty());
        }
        let stored = message("a", number);
        sender.immediate().store(stored).await.unwrap();
        let stored = Instant::now();
        let claimed = loop {
            if let Some(claimed) = work.claim(1, PAUSE).await.pop() {
                break claimed;
            }
            assert!(stored.elapsed() < PAUSE * 4, "message {number}");
        };
        work.immediate().report(applied(claimed)).await.unwrap();
    }
}

/// `process` claims with what its writes have left of its deadline.
#[tokio::test(start_paused = true)]
async fn a_claim_after_slow_writes_finds_messages() {
    let env = TestEnv::start().await;
    let time = or_skip!(env.time(), "needs the emulator");
    let slots = Arc::new(InMemoryLeaseProvider::all());
    let network = SlowSearches(time.clone(), Duration::from_secs(2));
    let work = env.with_default_retry(network);
    let work = WorkCoordinator::open(work, slots, WorkConfig::default());
    let work = work.await.unwrap();
    let sender = sender(&env).await;
    sender.immediate().store(message("a", 1)).await.unwrap();
    let mut claimed = Vec::new();
    for number in 1..=4 {
        let entry = message(SLOW, number);
        let batch = WorkBatch {
            entries: vec![WorkEntry::Store(entry)],
            claim: 10,
            ..WorkBatch::default()
        };
        let processed = work.process(batch).await;
        let streams = processed.claimed.iter();
        claimed.extend(streams.map(|work| work.message().stream.clone()));
    }
    assert!(claimed.contains(&"a".to_owned()), "{claimed:?}");
}

/// Each search reads a full page of messages that the claim does not want, so that the next one may find
/// some that it wants.
#[tokio::test(start_paused = true)]
async fn a_claim_ends_although_searches_find_messages_of_another_lane() {
    const SEARCH: Duration = Duration::from_secs(9);
    // Of seven pages.
    const MESSAGES: usize = 1_750;
    const SECOND: Duration = Duration::from_secs(1);
    let env = TestEnv::start().await;
    let time = or_skip!(env.time(), "needs the emulator");
    let sender = sender(&env).await;
    let stored = sender.scoped();
    for number in 0..MESSAGES {
        stored.store(message(&format!("inbox-{number}"), 1)).await;
    }
    stored.commit().await.unwrap();
    for processes in [false, true] {
        let slots = Arc::new(InMemoryLeaseProvider::all());
        let network = SlowSearches(time.clone(), SEARCH);
        let container = env.with_default_retry(network);
        let deadline = container.deadline();
        let work = WorkCoordinator::open(container, slots, WorkConfig::default());
        let work = work.await.unwrap();
        let begun = Instant::now();
        let claimed = if processes {
            let entry = message(SLOW, 1);
            let batch = WorkBatch {
                entries: vec![WorkEntry::Store(entry)],
                claim: 1,
                lane: Some(Lane::Outbox),
            };
            work.process(batch).await.claimed
        } else {
            work.claim_from(Lane::Outbox, 1, SECOND).await
        };
        assert!(claimed.is_empty());
        // The search in which the deadline passes goes on for other claims.
        let took = begun.elapsed();
        assert!(took < SECOND + deadline + SEARCH, "{processes}: {took:?}");
        work.shutdown().await.unwrap();
    }
}
