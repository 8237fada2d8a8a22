//! Calls that the runtime breaks off: it drops its dispatchers and workers at `shutdown(Some(0))`, at any
//! await. What was sent goes on, and a shutdown of the provider leaves nothing locked.

use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use duroxide::providers::{Provider, SessionFetchConfig, TagFilter, WorkItem};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::harness::{next_activity, next_turn};
use crate::network::{ANY, on_network};
use crate::several::{enqueue, start, turn_with};
use crate::work_items::{activity_of, completion_of, metadata_of};

/// Longer than any wait, so that no test passes because a lock expired.
const LONG: Duration = Duration::from_secs(24 * 3600);
const GRACE: Duration = Duration::from_secs(60);
/// What another process waits at most. It searches its queues more often.
const SOON: Duration = Duration::from_secs(10);
/// The delay of each request of the process that is shut down.
const DELAY: Duration = Duration::from_millis(20);

/// An activity whose acknowledgement is broken off.
#[derive(Clone, Copy, Debug)]
struct Case {
    takes: Duration,
    /// Whether a renewal is under way when the activity ends.
    is_renewed: bool,
    /// Whether a dispatcher waits for the turn.
    is_awaited: bool,
    result_bytes: usize,
}

const PLAIN: Case = Case {
    takes: Duration::from_millis(1),
    is_renewed: false,
    is_awaited: false,
    result_bytes: 4,
};

/// Commits a first turn with an activity, and locks the activity.
async fn run_activity(provider: &CosmosDBProvider) -> String {
    let (_, token, _) = turn_with(provider, start("i"), LONG).await;
    let (history, activities) = (Vec::new(), vec![activity_of("i", 1, None)]);
    let metadata = metadata_of("Wait");
    let committed =
        provider.ack_orchestration_item(&token, 1, history, activities, vec![], metadata, vec![]);
    committed.await.expect("the turn is committed");
    let (_, token, _) = next_activity(provider, LONG, None).await;
    token
}

fn completion(bytes: usize) -> WorkItem {
    completion_of("i", 1, "x".repeat(bytes))
}

/// What the runtime does while the activity ends.
fn end(first: &CosmosDBProvider, token: &str, case: Case) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if case.is_awaited {
        let provider = first.clone();
        tasks.spawn(async move {
            let _turn = next_turn(&provider, LONG).await;
            std::future::pending::<()>().await;
        });
    }
    if case.is_renewed {
        let (provider, token) = (first.clone(), token.to_owned());
        tasks.spawn(async move {
            let _renewed = provider.renew_work_item_lock(&token, LONG * 2).await;
        });
    }
    let (provider, token) = (first.clone(), token.to_owned());
    tasks.spawn(async move {
        sleep(Duration::from_millis(1)).await;
        let done = completion(case.result_bytes);
        let _ended = provider.ack_work_item(&token, Some(done)).await;
    });
    tasks
}

/// Breaks the acknowledgement off after this time. The activity has ended, and does not run again.
async fn ends_once(case: Case, at: u64) {
    let (backend, network, first) = or_skip!(on_network().await);
    let second = backend.provider().await;
    let token = run_activity(&first).await;
    sleep(case.takes).await;
    network.slow_down(ANY, DELAY);
    let mut tasks = end(&first, &token, case);
    sleep(Duration::from_millis(at)).await;
    tasks.shutdown().await;
    first.shutdown(GRACE).await;
    let turn = timeout(SOON, next_turn(&second, LONG)).await;
    let turn = turn.map(|(item, ..)| item.messages.len());
    assert_eq!(turn, Ok(1), "{case:?} at {at}: its completion is gone");
    let again = ok!(second.fetch_work_item(LONG, SOON, None, &TagFilter::Any));
    assert!(
        again.is_none(),
        "{case:?} at {at}: it runs again: {again:?}"
    );
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_broken_off_goes_on() {
    for at in (2..80).step_by(7) {
        ends_once(PLAIN, at).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_behind_a_renewal_goes_on() {
    let case = Case {
        is_renewed: true,
        ..PLAIN
    };
    for at in (2..120).step_by(9) {
        ends_once(case, at).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_waits_for_a_turn_goes_on() {
    let case = Case {
        takes: Duration::from_secs(2),
        is_awaited: true,
        ..PLAIN
    };
    for at in (2..120).step_by(6) {
        ends_once(case, at).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_with_a_result_in_chunks_goes_on() {
    let case = Case {
        result_bytes: 3_000_000,
        ..PLAIN
    };
    for at in (2..160).step_by(13) {
        ends_once(case, at).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_is_broken_off_counts_no_attempt() {
    for at in (1..120).step_by(5) {
        let (backend, network, first) = or_skip!(on_network().await);
        let second = backend.provider().await;
        enqueue(&second, start("i")).await;
        network.slow_down(ANY, DELAY);
        let fetch = first.fetch_orchestration_item(LONG, LONG, None);
        let _broken_off = timeout(Duration::from_millis(at), fetch).await;
        first.shutdown(GRACE).await;
        let found = timeout(SOON, next_turn(&second, LONG)).await;
        let attempt = found.map(|(_, _, attempt)| attempt);
        assert_eq!(attempt, Ok(1), "broken off at {at}");
        backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_is_broken_off_keeps_no_session() {
    let session = |owner: &str| SessionFetchConfig {
        owner_id: owner.to_owned(),
        lock_timeout: LONG,
    };
    for at in (1..160).step_by(7) {
        let (backend, network, first) = or_skip!(on_network().await);
        let second = backend.provider().await;
        let activity = activity_of("i", 1, Some("desk"));
        ok!(second.enqueue_for_worker(activity));
        network.slow_down(ANY, DELAY);
        let own = session("first");
        let fetch = first.fetch_work_item(LONG, LONG, Some(&own), &TagFilter::Any);
        let _broken_off = timeout(Duration::from_millis(at), fetch).await;
        first.shutdown(GRACE).await;
        let own = session("second");
        let found = timeout(SOON, next_activity(&second, LONG, Some(&own))).await;
        let attempt = found.map(|(_, _, attempt)| attempt);
        assert_eq!(attempt, Ok(1), "broken off at {at}");
        backend.stop().await;
    }
}
