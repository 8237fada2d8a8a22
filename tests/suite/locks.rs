//! An expired lock is lost: a runtime that was paused, or that renewed too late, never commits a
//! turn that another runtime has taken over.
//!
//! `tests/judges/chaos` stops and continues processes (SIGSTOP). Here the request itself is late, which is
//! the worst moment of a stop. Time is simulated.

use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_tests::{Backend, audit};
use duroxide::Event;
use duroxide::providers::{
    ExecutionMetadata, Provider, ProviderAdmin as _, ProviderError, TagFilter, WorkItem,
};

use crate::harness::{finds_turn, next_activity, next_turn};
use crate::network::{BATCH, CREATE, Network, PATCH, READ};
use crate::several::{ack, enqueue, run_turn, start, turn_with};
use crate::work_items::{activity_of, completion_of, metadata_of, started, with_input};

/// A short lock.
const SHORT: Duration = Duration::from_millis(500);
/// The delay of requests: long enough for another runtime to take over.
const LATE: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

/// A provider with slow requests, and another that takes over its work.
struct Pair {
    backend: Backend,
    slow: CosmosDBProvider,
    quick: CosmosDBProvider,
    network: Network,
}

impl Pair {
    /// `None` on an account, whose network is not the test's.
    async fn start() -> Option<Self> {
        let backend = Backend::start_simulated().await;
        let network = Network::default();
        let slow = network.provider(&backend).await?;
        let quick = backend.provider().await;
        Some(Self {
            backend,
            slow,
            quick,
            network,
        })
    }

    async fn stop(self) {
        assert!(self.network.has_stalled(), "a request was late");
        self.backend.stop().await;
    }
}

pub(crate) fn is_lost(result: &Result<(), ProviderError>) -> bool {
    matches!(result, Err(error) if error.message.starts_with("Invalid lock token"))
}

#[tokio::test(start_paused = true)]
async fn a_commit_after_its_lock_expired_changes_nothing() {
    let pair = or_skip!(Pair::start().await);
    let (slow, quick) = (&pair.slow, &pair.quick);
    let (_, slow_token, _) = turn_with(slow, start("shared"), SHORT).await;
    pair.network.stall_at(BATCH, LATE);
    let empty = ExecutionMetadata::default();
    let (late, ()) = tokio::join!(
        slow.ack_orchestration_item(&slow_token, 1, vec![], vec![], vec![], empty, vec![]),
        async {
            run_turn(quick, LONG).await;
        }
    );
    assert!(is_lost(&late), "{late:?}");
    let history = slow.read("shared").await.expect("a history");
    assert_eq!(history.len(), 1, "the quick provider's");
    pair.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_restore_the_lock() {
    let pair = or_skip!(Pair::start().await);
    let (slow, quick) = (&pair.slow, &pair.quick);
    let (_, slow_token, _) = turn_with(slow, start("shared"), SHORT).await;
    pair.network.stall_at(PATCH, LATE);
    let (renewed, next) = tokio::join!(
        slow.renew_orchestration_item_lock(&slow_token, LONG),
        next_turn(quick, LONG)
    );
    assert!(is_lost(&renewed), "{renewed:?}");
    let empty = ExecutionMetadata::default();
    let late = slow
        .ack_orchestration_item(&slow_token, 1, vec![], vec![], vec![], empty, vec![])
        .await;
    assert!(is_lost(&late), "{late:?}");
    let (item, token, _) = next;
    ack(quick, &item, &token).await;
    pair.stop().await;
}

pub(crate) fn activity() -> WorkItem {
    activity_of("shared", 2, None)
}

pub(crate) fn completed(result: &str) -> WorkItem {
    completion_of("shared", 2, result)
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_ends_after_its_lock_expired_changes_nothing() {
    let pair = or_skip!(Pair::start().await);
    let (slow, quick) = (&pair.slow, &pair.quick);
    ok!(slow.enqueue_for_worker(activity()));
    let (_, slow_token, _) = next_activity(slow, SHORT, None).await;
    pair.network.stall_at(BATCH, LATE);
    let (late, ()) = tokio::join!(
        slow.ack_work_item(&slow_token, Some(completed("slow"))),
        async {
            let (_, token, attempt) = next_activity(quick, LONG, None).await;
            assert_eq!(attempt, 2);
            let ended = quick.ack_work_item(&token, Some(completed("quick"))).await;
            ended.expect("it is the quick provider's");
        }
    );
    assert!(is_lost(&late), "{late:?}");
    let (item, ..) = turn_with(quick, start("shared"), LONG).await;
    let results: Vec<&WorkItem> = item
        .messages
        .iter()
        .filter(|message| matches!(message, WorkItem::ActivityCompleted { .. }))
        .collect();
    assert_eq!(results, [&completed("quick")]);
    pair.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cached_start_of_a_deleted_instance_leaves_nothing_behind() {
    let backend = Backend::start_simulated().await;
    let (late, quick) = (backend.provider().await, backend.provider().await);
    // `late` has the message in memory when `quick` handles it and deletes the instance.
    enqueue(&late, start("i")).await;
    let (item, token, _) = next_turn(&quick, LONG).await;
    ack(&quick, &item, &token).await;
    let deleted = quick.delete_instance("i", true).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    let fetched = late.fetch_orchestration_item(LONG, LATE, None).await;
    if let Some((_, token, _)) = fetched.expect("fetch") {
        let nothing = ExecutionMetadata::default();
        let acked = late.ack_orchestration_item(&token, 1, vec![], vec![], vec![], nothing, vec![]);
        assert!(is_lost(&acked.await), "the message is consumed");
    }
    let problems = ok!(audit(late.container()));
    assert_eq!(problems, [""; 0]);
    backend.stop().await;
}

/// An input that is stored in chunks.
const LARGE_INPUT: usize = 2_400_000;
/// The lock of the items below. Their chunks arrive after `LATE`, which is longer.
const LOCK: Duration = Duration::from_secs(2);

/// Runs `fetch` while documents are read slowly, and checks in the meantime that the other provider
/// finds no work.
async fn while_reads_are_slow<T>(pair: &Pair, fetch: impl Future<Output = T>) -> T {
    pair.network.slow_down(READ, LATE);
    let (fetched, ()) = tokio::join!(fetch, async {
        tokio::time::sleep(LOCK + LOCK / 2).await;
        let (quick, none) = (&pair.quick, Duration::ZERO);
        assert!(!finds_turn(quick, LONG, none).await, "it is locked");
        let activity = ok!(quick.fetch_work_item(LONG, none, None, &TagFilter::Any));
        assert!(activity.is_none(), "it is locked");
    });
    pair.network.repair();
    fetched
}

/// Commits the first turn of "shared", with this input and these activities.
async fn commit(provider: &CosmosDBProvider, token: &str, input: &str, activities: Vec<WorkItem>) {
    let kind = started("Wait", input);
    let event = Event::with_event_id(1, "shared", 1, None, kind);
    let metadata = metadata_of("Wait");
    let committed = provider.ack_orchestration_item(
        token,
        1,
        vec![event],
        activities,
        vec![],
        metadata,
        vec![],
    );
    committed.await.expect("the turn is committed");
}

#[tokio::test(start_paused = true)]
async fn a_turn_keeps_its_lock_while_its_messages_are_read() {
    let pair = or_skip!(Pair::start().await);
    let (slow, quick) = (&pair.slow, &pair.quick);
    let large = with_input(start("shared"), "x".repeat(LARGE_INPUT));
    enqueue(quick, large.clone()).await;
    let fetch = next_turn(slow, LOCK);
    let (item, token, attempt) = while_reads_are_slow(&pair, fetch).await;
    assert_eq!((attempt, item.messages == [large]), (1, true));
    // The first renewal of the runtime.
    tokio::time::sleep(LOCK / 2).await;
    let renewed = slow.renew_orchestration_item_lock(&token, LOCK).await;
    renewed.expect("the lock has lasted");
    ack(slow, &item, &token).await;
    pair.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_keeps_its_lock_while_its_input_is_read() {
    let pair = or_skip!(Pair::start().await);
    let (slow, quick) = (&pair.slow, &pair.quick);
    let large = with_input(activity(), "x".repeat(LARGE_INPUT));
    let (_, token, _) = turn_with(quick, start("shared"), LONG).await;
    commit(quick, &token, "", vec![large.clone()]).await;
    let fetch = next_activity(slow, LOCK, None);
    let (item, token, attempt) = while_reads_are_slow(&pair, fetch).await;
    assert_eq!((attempt, item == large), (1, true));
    tokio::time::sleep(LOCK / 2).await;
    let renewed = slow.renew_work_item_lock(&token, LOCK).await;
    renewed.expect("the lock has lasted");
    let ended = slow.ack_work_item(&token, Some(completed("slow"))).await;
    ended.expect("the lock has lasted");
    pair.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_with_a_slow_renewal_is_not_taken_over_by_its_own_process() {
    let pair = or_skip!(Pair::start().await);
    let slow = &pair.slow;
    let (_, token, _) = turn_with(slow, start("shared"), LOCK).await;
    // The chunks are written in three seconds. The lock is renewed meanwhile, but the answer comes
    // after the renewed lock has expired.
    pair.network.slow_down(CREATE, Duration::from_secs(3));
    pair.network.answer_late(PATCH, LATE);
    let input = "x".repeat(LARGE_INPUT);
    let ((), other) = tokio::join!(
        commit(slow, &token, &input, vec![]),
        slow.fetch_orchestration_item(LONG, LATE, None)
    );
    assert!(other.expect("a fetch").is_none(), "the turn is under way");
    let history = slow.read("shared").await.expect("a history");
    assert_eq!(history.len(), 1);
    pair.backend.stop().await;
}
