//! Operators and retention that stand still between two requests, for less than the deadline of a
//! request, while others act. Each test fails at one of the positions that it tries.

use std::time::Duration;

use cdb_provider::Extent;
use duroxide::OrchestrationStatus;
use duroxide::providers::{Provider as _, ProviderAdmin as _, PruneOptions};
use tokio::time::{Instant, sleep};

use super::{Requests, SECOND, Site};
use crate::retention::partitions;

/// When the others act.
const ACT: Duration = Duration::from_secs(3);

/// Shorter than the deadline of a request.
const FROZEN: Duration = Duration::from_secs(24);

/// Deletes `main` and starts `below`, its child so far, as an instance of its own.
async fn delete_and_start_below(site: &Site, force: bool) {
    sleep(ACT).await;
    let _maybe_gone = site.provider.delete_instance("main", force).await;
    sleep(SECOND).await;
    site.begin("below", "Waiter", "new").await;
    sleep(SECOND * 3).await;
}

/// A deletes the tree of `main` by force: it fences both instances, and stands still. B deletes the
/// tree, and a user starts `below` as an instance of its own. A goes on: `below` is not fenced any
/// more, so A fences it again and deletes it, although it does not belong to `main`.
#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_an_instance_that_is_no_child_any_more() {
    for after in [4, 5, 6] {
        let site = Site::open().await;
        let requests = Requests::default();
        let operator = requests.provider(&site.backend).await;
        site.begin("main", "Above", "old").await;
        sleep(SECOND * 5).await;
        let deletion = requests.freeze(after, FROZEN, operator.delete_instance("main", true));
        let others = delete_and_start_below(&site, true);
        let ((deleted, _), ()) = tokio::join!(deletion, others);
        site.raise("below").await;
        let end = site.end("below", SECOND * 30).await;
        assert_eq!(end, "new", "after {after}: {deleted:?}");
        site.close().await;
    }
}

/// A, a purge or the retention of a runtime, has read that the tree of `main` has ended, and stands
/// still. B deletes it, and a user starts `below` as an instance of its own. A goes on, and deletes the
/// running `below`: only the root of a tree is deleted on a condition.
#[tokio::test(start_paused = true)]
async fn a_frozen_purge_keeps_an_instance_that_is_no_child_any_more() {
    for after in [5, 6, 7] {
        let site = Site::open().await;
        let requests = Requests::default();
        let operator = requests.provider(&site.backend).await;
        site.begin("main", "Above", "old").await;
        sleep(SECOND * 5).await;
        site.raise("below").await;
        assert_eq!(site.end("main", SECOND * 90).await, "old");
        sleep(SECOND * 5).await;
        let mut purge = operator.purge_ended(SECOND);
        let purged = requests.freeze(after, FROZEN, purge.next_slice());
        let others = delete_and_start_below(&site, false);
        let ((purged, _), ()) = tokio::join!(purged, others);
        site.raise("below").await;
        let end = site.end("below", SECOND * 30).await;
        assert_eq!(end, "new", "after {after}: {purged:?}");
        site.close().await;
    }
}

/// A, a purge or the retention of a runtime, has read that the failed tree of `main` has ended, and
/// stands still. B rewinds it, and its child runs again. A goes on: it deletes the running child, keeps
/// the root, which runs, and the root waits for ever.
#[tokio::test(start_paused = true)]
async fn a_frozen_purge_keeps_a_rewound_tree() {
    for after in [5, 6, 7] {
        let site = Site::open().await;
        let requests = Requests::default();
        let operator = requests.provider(&site.backend).await;
        site.begin("main", "AboveFragile", "old").await;
        let failed = site.end("main", SECOND * 90).await;
        assert!(failed.contains("broken"), "{failed}");
        sleep(SECOND * 5).await;
        site.repair();
        let mut purge = operator.purge_ended(SECOND);
        let purged = requests.freeze(after, FROZEN, purge.next_slice());
        let others = async {
            sleep(ACT).await;
            site.provider.rewind("main", "bob").await
        };
        let ((purged, _), rewound) = tokio::join!(purged, others);
        if rewound.is_ok() {
            site.raise("below").await;
            let end = site.end("main", SECOND * 60).await;
            let below = site.status("below").await;
            assert_eq!(end, "old", "after {after}: {purged:?}, below: {below:?}");
        }
        site.close().await;
    }
}

/// A pauses the tree of `main`: it has read the child `below`, and stands still. B deletes the tree. A
/// goes on, creates `below` as a paused instance that was never started, and reports both as paused. It
/// stays behind: the child of a tree that is started later waits for ever.
#[tokio::test(start_paused = true)]
async fn a_frozen_pause_leaves_nothing_of_a_deleted_tree() {
    for after in 11..16 {
        let site = Site::open().await;
        let requests = Requests::default();
        let operator = requests.provider(&site.backend).await;
        site.begin("main", "Above", "old").await;
        sleep(SECOND * 5).await;
        let paused = requests.freeze(after, FROZEN, operator.pause("main", Extent::Tree, "ada"));
        let others = async {
            sleep(ACT).await;
            site.provider.delete_instance("main", true).await
        };
        let ((paused, _), deleted) = tokio::join!(paused, others);
        deleted.expect("it is deleted");
        sleep(SECOND * 10).await;
        let left = partitions(&site.provider).await;
        if !left.is_empty() {
            site.begin("main", "Above", "new").await;
            sleep(SECOND * 10).await;
            site.raise("below").await;
            let end = site.end("main", SECOND * 60).await;
            panic!("after {after}: left {left:?}; {paused:?}; a new tree ends: {end}");
        }
        site.close().await;
    }
}

/// The same, but `below` is started as an instance of its own. A pauses it, and a resumption of `main`
/// does not resume it.
#[tokio::test(start_paused = true)]
async fn a_frozen_pause_of_a_tree_pauses_no_other_instance() {
    for after in [11, 12, 13] {
        let site = Site::open().await;
        let requests = Requests::default();
        let operator = requests.provider(&site.backend).await;
        site.begin("main", "Above", "old").await;
        sleep(SECOND * 5).await;
        let paused = requests.freeze(after, FROZEN, operator.pause("main", Extent::Tree, "ada"));
        let others = delete_and_start_below(&site, true);
        let ((paused, _), ()) = tokio::join!(paused, others);
        site.raise("below").await;
        let end = site.end("below", SECOND * 30).await;
        assert_eq!(end, "new", "after {after}: {paused:?}");
        site.close().await;
    }
}

/// A prunes the old executions of `main`, has read their numbers, and stands still. B deletes `main`,
/// and a user starts it again. A goes on, and deletes the history of the new execution 1, which runs.
#[tokio::test(start_paused = true)]
async fn a_frozen_prune_keeps_the_history_of_a_recreated_instance() {
    for after in [1, 2, 3] {
        let site = Site::open().await;
        let requests = Requests::default();
        let operator = requests.provider(&site.backend).await;
        site.begin("main", "Again", "4").await;
        sleep(SECOND * 10).await;
        let options = PruneOptions {
            keep_last: Some(1),
            ..PruneOptions::default()
        };
        let pruned = requests.freeze(after, FROZEN, operator.prune_executions("main", options));
        let others = async {
            sleep(ACT).await;
            let deleted = site.provider.delete_instance("main", true).await;
            deleted.expect("it is deleted");
            site.begin("main", "Again", "0").await;
            sleep(SECOND * 3).await;
            site.provider.read("main").await.expect("a history").len()
        };
        let ((pruned, _), before) = tokio::join!(pruned, others);
        let events = site.provider.read("main").await.expect("a history").len();
        assert_eq!(events, before, "after {after}: {pruned:?}");
        site.close().await;
    }
}

/// An instance is deleted by force while its activity runs, and started again. The new activity has the
/// same number, and the same process runs it: it has to begin within B, 14.25 s.
#[tokio::test(start_paused = true)]
async fn the_activity_of_a_recreated_instance_does_not_wait_for_the_old_one() {
    let site = Site::open().await;
    site.begin("main", "Stepper", "100").await;
    sleep(SECOND * 5).await;
    assert_eq!(site.began(), ["100"]);
    let deleted = site.provider.delete_instance("main", true).await;
    deleted.expect("it is deleted");
    let begun = Instant::now();
    site.begin("main", "Stepper", "3").await;
    let end = site.end("main", SECOND * 300).await;
    assert_eq!(end, "3", "{:?}", site.began());
    assert!(begun.elapsed() < SECOND * 20, "{:?}", begun.elapsed());
    site.close().await;
}

/// 70 queued events arrive before the failure. 64 of them are in the execution, and the others wait in
/// the store. Two are taken, so the turn that fails has room for 64 and 65. The rewind drops that turn
/// and sends both again, behind 66 to 69 in the store: the order is … 63 66 67 68 69 64 65.
#[tokio::test(start_paused = true)]
async fn queued_events_keep_their_order_over_a_rewind() {
    let site = Site::open().await;
    let queue = async |data: String| {
        let queued = site.client.enqueue_event("main", "Orders", data).await;
        queued.expect("it is queued");
    };
    site.begin("main", "TakeFail", "").await;
    sleep(SECOND).await;
    for number in 0..70 {
        queue(number.to_string()).await;
    }
    let status = site.status("main").await;
    assert!(
        matches!(status, OrchestrationStatus::Running { .. }),
        "its activity takes five seconds"
    );
    let failed = site.end("main", SECOND * 90).await;
    assert!(failed.contains("broken"), "{failed}");
    site.repair();
    let plan = site.provider.rewind("main", "ada").await;
    let plan = plan.expect("it is rewound");
    sleep(SECOND * 8).await;
    queue("last".to_owned()).await;
    let end = site.end("main", SECOND * 90).await;
    let all: Vec<_> = (0..70).map(|number| number.to_string()).collect();
    assert!(
        end == all.join(" ") || !plan.raise_again.is_empty(),
        "{end}; {plan:?}"
    );
    site.close().await;
}

/// A deletes the ended tree of `main`, without force, and stands still. B deletes it, and a user starts
/// `below` as an instance of its own, which no runtime has begun. A goes on and deletes its start.
#[tokio::test(start_paused = true)]
async fn a_frozen_deletion_keeps_the_start_of_a_recreated_instance() {
    for after in 4..10 {
        let site = Site::open().await;
        let requests = Requests::default();
        let operator = requests.provider(&site.backend).await;
        site.begin("main", "Above", "old").await;
        sleep(SECOND * 5).await;
        site.raise("below").await;
        assert_eq!(site.end("main", SECOND * 90).await, "old");
        site.runtime.clone().shutdown(None).await;
        let deletion = requests.freeze(after, FROZEN, operator.delete_instance("main", false));
        let ((deleted, _), ()) = tokio::join!(deletion, delete_and_start_below(&site, false));
        let left = partitions(&site.provider).await;
        assert!(left.contains("below"), "after {after}: {deleted:?}");
        site.backend.stop().await;
    }
}
