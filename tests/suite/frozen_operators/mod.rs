//! Operators and retention whose process stands still between two requests, for less than the deadline
//! of a request, while others delete, rewind and start instances with the same ids. They go on with the
//! instances that they have found, and with no others. Each test tries every position at which the
//! process may stand still. Time is simulated.

mod site;
mod unbegun;

use cdb_provider::Extent;
use cdb_provider::documents::{Instance, InstanceKey, Status};
use duroxide::providers::{Provider as _, ProviderAdmin as _, PruneOptions};
use tokio::time::{Instant, sleep};

use crate::retention::partitions;
use site::{SECOND, Site};

/// More answers than a call gets.
const MOST_ANSWERS: usize = 60;

/// Runs a test at every position at which an operator may stand still, until it does not any more.
/// Returns the number of positions.
async fn at_every_position(test: impl AsyncFn(&Site, usize) -> bool) -> usize {
    for answers in 0..MOST_ANSWERS {
        let Some(site) = Site::open().await else {
            return usize::MAX;
        };
        let has_stood_still = Box::pin(test(&site, answers)).await;
        site.close().await;
        if !has_stood_still {
            return answers;
        }
    }
    panic!("the call sends too many requests");
}

/// Deletes `main` with its child `below`, and starts `below` as an instance of its own.
async fn delete_and_start_below(site: &Site, force: bool) {
    // The operator may have deleted it.
    let _deleted = site.provider.delete_instance("main", force).await;
    sleep(SECOND).await;
    site.begin("below", "Waiter", "new").await;
    sleep(SECOND * 3).await;
}

async fn begin_tree(site: &Site) {
    site.begin("main", "Above", "old").await;
    sleep(SECOND * 5).await;
}

async fn end_tree(site: &Site) {
    begin_tree(site).await;
    site.raise("below").await;
    assert_eq!(site.end("main").await, "old");
    sleep(SECOND * 5).await;
}

/// Checks that the instance that was started meanwhile goes on, and that nobody has locked it.
async fn check_goes_on(site: &Site, id: &str, answers: usize, result: &impl std::fmt::Debug) {
    let raised = Instant::now();
    site.raise("below").await;
    assert_eq!(site.end(id).await, "new", "after {answers}: {result:?}");
    let time = raised.elapsed();
    assert!(time < SECOND * 20, "after {answers}: {time:?}, {result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_an_instance_that_is_no_child_any_more() {
    let positions = at_every_position(async |site, answers| {
        begin_tree(site).await;
        let deletion = site.operator.delete_instance("main", true);
        let others = delete_and_start_below(site, true);
        let (deleted, others) = site.while_frozen(answers, deletion, others).await;
        if others.is_some() {
            check_goes_on(site, "below", answers, &deleted).await;
        }
        others.is_some()
    });
    assert!(positions.await > 8);
}

/// The same for a deletion of an ended tree, when no runtime has begun the new instance.
#[tokio::test(start_paused = true)]
async fn a_frozen_deletion_keeps_the_start_of_a_recreated_instance() {
    let positions = at_every_position(async |site, answers| {
        end_tree(site).await;
        site.stop_runtime().await;
        let deletion = site.operator.delete_instance("main", false);
        let others = delete_and_start_below(site, false);
        let (deleted, others) = site.while_frozen(answers, deletion, others).await;
        if others.is_some() {
            let left = partitions(&site.provider).await;
            assert!(left.contains("below"), "after {answers}: {deleted:?}");
        }
        others.is_some()
    });
    assert!(positions.await > 8);
}

/// The new instance has ended too.
#[tokio::test(start_paused = true)]
async fn a_frozen_deletion_keeps_the_result_of_a_recreated_instance() {
    let positions = at_every_position(async |site, answers| {
        end_tree(site).await;
        let deletion = site.operator.delete_instance("main", false);
        let others = async {
            delete_and_start_below(site, false).await;
            check_goes_on(site, "below", answers, &"it is started").await;
        };
        let (deleted, others) = site.while_frozen(answers, deletion, others).await;
        if others.is_some() {
            let left = partitions(&site.provider).await;
            assert!(left.contains("below"), "after {answers}: {deleted:?}");
        }
        others.is_some()
    });
    assert!(positions.await > 8);
}

/// A purge, or the retention of a runtime.
#[tokio::test(start_paused = true)]
async fn a_frozen_purge_keeps_an_instance_that_is_no_child_any_more() {
    let positions = at_every_position(async |site, answers| {
        end_tree(site).await;
        let mut purge = site.operator.purge_ended(SECOND);
        let others = delete_and_start_below(site, false);
        let (purged, others) = site.while_frozen(answers, purge.next_slice(), others).await;
        if others.is_some() {
            check_goes_on(site, "below", answers, &purged).await;
        }
        others.is_some()
    });
    assert!(positions.await > 4);
}

/// The purge has read that the failed tree has ended. Then the rewound child runs again, and its parent
/// waits for it.
#[tokio::test(start_paused = true)]
async fn a_frozen_purge_keeps_a_rewound_tree() {
    let positions = at_every_position(async |site, answers| {
        site.begin("main", "AboveFragile", "old").await;
        let failed = site.end("main").await;
        assert!(failed.contains("broken"), "{failed}");
        sleep(SECOND * 5).await;
        site.repair();
        let mut purge = site.operator.purge_ended(SECOND);
        let others = site.provider.rewind("main", "bob");
        let (purged, others) = site.while_frozen(answers, purge.next_slice(), others).await;
        if let Some(Ok(_)) = others {
            site.raise("below").await;
            assert_eq!(site.end("main").await, "old", "after {answers}: {purged:?}");
        }
        others.is_some()
    });
    assert!(positions.await > 4);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_prune_keeps_the_history_of_a_recreated_instance() {
    let positions = at_every_position(async |site, answers| {
        site.begin("main", "Again", "4").await;
        sleep(SECOND * 10).await;
        let options = PruneOptions {
            keep_last: Some(1),
            ..PruneOptions::default()
        };
        let others = async {
            let deleted = site.provider.delete_instance("main", true).await;
            deleted.expect("it is deleted");
            site.begin("main", "Again", "2").await;
            sleep(SECOND * 5).await;
            kept(site).await
        };
        let pruned = site.operator.prune_executions("main", options);
        let (pruned, before) = site.while_frozen(answers, pruned, others).await;
        let has_stood_still = before.is_some();
        if let Some(before) = before {
            assert_eq!(kept(site).await, before, "after {answers}: {pruned:?}");
        }
        has_stood_still
    });
    assert!(positions.await > 4);
}

/// Returns the executions of `main`, and the events of the newest one.
async fn kept(site: &Site) -> (Vec<u64>, usize) {
    let executions = site.provider.list_executions("main").await;
    let events = site.provider.read("main").await;
    (
        executions.expect("a list"),
        events.expect("a history").len(),
    )
}

/// What a pause creates for a child that has not begun would keep the child of a later tree waiting.
#[tokio::test(start_paused = true)]
async fn a_frozen_pause_leaves_nothing_of_a_deleted_tree() {
    let positions = at_every_position(async |site, answers| {
        begin_tree(site).await;
        let pause = site.operator.pause("main", Extent::Tree, "ada");
        let others = site.provider.delete_instance("main", true);
        let (paused, deleted) = site.while_frozen(answers, pause, others).await;
        let has_stood_still = deleted.is_some();
        if let Some(deleted) = deleted {
            deleted.expect("it is deleted");
            sleep(SECOND * 10).await;
            let left = partitions(&site.provider).await;
            assert!(left.is_empty(), "after {answers}: {left:?}, {paused:?}");
        }
        has_stood_still
    });
    assert!(positions.await > 12);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_pause_of_a_tree_pauses_no_other_instance() {
    let positions = at_every_position(async |site, answers| {
        begin_tree(site).await;
        let pause = site.operator.pause("main", Extent::Tree, "ada");
        let others = delete_and_start_below(site, true);
        let (paused, others) = site.while_frozen(answers, pause, others).await;
        if others.is_some() {
            check_goes_on(site, "below", answers, &paused).await;
        }
        others.is_some()
    });
    assert!(positions.await > 12);
}

/// Deletes `main` with its child, and starts the same tree again.
async fn delete_and_start_again(site: &Site, force: bool) {
    let _deleted = site.provider.delete_instance("main", force).await;
    sleep(SECOND).await;
    site.begin("main", "Above", "new").await;
    sleep(SECOND * 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_a_recreated_tree() {
    let positions = at_every_position(async |site, answers| {
        begin_tree(site).await;
        let deletion = site.operator.delete_instance("main", true);
        let others = delete_and_start_again(site, true);
        let (deleted, others) = site.while_frozen(answers, deletion, others).await;
        if others.is_some() {
            check_goes_on(site, "main", answers, &deleted).await;
        }
        others.is_some()
    });
    assert!(positions.await > 8);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_deletion_keeps_a_recreated_tree() {
    let positions = at_every_position(async |site, answers| {
        end_tree(site).await;
        let deletion = site.operator.delete_instance("main", false);
        let others = delete_and_start_again(site, false);
        let (deleted, others) = site.while_frozen(answers, deletion, others).await;
        if others.is_some() {
            check_goes_on(site, "main", answers, &deleted).await;
        }
        others.is_some()
    });
    assert!(positions.await > 8);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_pause_does_not_pause_a_recreated_tree() {
    let positions = at_every_position(async |site, answers| {
        begin_tree(site).await;
        let pause = site.operator.pause("main", Extent::Tree, "ada");
        let others = delete_and_start_again(site, true);
        let (paused, others) = site.while_frozen(answers, pause, others).await;
        if others.is_some() {
            check_goes_on(site, "main", answers, &paused).await;
        }
        others.is_some()
    });
    assert!(positions.await > 12);
}

async fn stored(site: &Site, id: &str) -> Option<Instance> {
    let found = site.provider.container().read(&InstanceKey::new(id)).await;
    found.expect("it is readable").map(|found| found.document)
}

/// Another operator has paused the instance that has the id of the child now.
#[tokio::test(start_paused = true)]
async fn a_frozen_resumption_of_a_tree_resumes_no_other_instance() {
    let positions = at_every_position(async |site, answers| {
        begin_tree(site).await;
        let paused = site.provider.pause("main", Extent::Tree, "ada").await;
        paused.expect("it is paused");
        let others = async {
            delete_and_start_below(site, true).await;
            let paused = site.provider.pause("below", Extent::Alone, "bob").await;
            paused.expect("it is paused");
        };
        let resumption = site.operator.resume("main", Extent::Tree);
        let (resumed, others) = site.while_frozen(answers, resumption, others).await;
        if others.is_some() {
            let below = stored(site, "below").await.expect("it exists");
            assert!(below.paused.is_some(), "after {answers}: {resumed:?}");
        }
        others.is_some()
    });
    assert!(positions.await > 8);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_resumption_leaves_nothing_of_a_deleted_tree() {
    let positions = at_every_position(async |site, answers| {
        begin_tree(site).await;
        let paused = site.provider.pause("main", Extent::Tree, "ada").await;
        paused.expect("it is paused");
        let others = site.provider.delete_instance("main", true);
        let resumption = site.operator.resume("main", Extent::Tree);
        let (resumed, others) = site.while_frozen(answers, resumption, others).await;
        let has_stood_still = others.is_some();
        if has_stood_still {
            sleep(SECOND * 10).await;
            let left = partitions(&site.provider).await;
            assert!(left.is_empty(), "after {answers}: {left:?}, {resumed:?}");
        }
        has_stood_still
    });
    assert!(positions.await > 8);
}

async fn fail_tree(site: &Site) {
    site.begin("main", "AboveFragile", "old").await;
    let failed = site.end("main").await;
    assert!(failed.contains("broken"), "{failed}");
    sleep(SECOND * 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_rewind_leaves_nothing_of_a_deleted_tree() {
    let positions = at_every_position(async |site, answers| {
        fail_tree(site).await;
        let others = site.provider.delete_instance("main", true);
        let rewind = site.operator.rewind("main", "ada");
        let (rewound, others) = site.while_frozen(answers, rewind, others).await;
        let has_stood_still = others.is_some();
        // Otherwise it was rewound before.
        if has_stood_still && rewound.is_err() {
            sleep(SECOND * 10).await;
            let left = partitions(&site.provider).await;
            assert!(left.is_empty(), "after {answers}: {left:?}, {rewound:?}");
        }
        has_stood_still
    });
    assert!(positions.await > 8);
}

/// The id of the child has an instance of its own, or a child of a later tree, which has failed too.
#[tokio::test(start_paused = true)]
async fn a_frozen_rewind_rewinds_no_other_instance() {
    for orchestration in ["Fragile", "AboveFragile"] {
        let id = match orchestration {
            "Fragile" => "below",
            _ => "main",
        };
        let positions = at_every_position(async |site, answers| {
            fail_tree(site).await;
            let rewind = site.operator.rewind("main", "ada");
            let others = async {
                let deleted = site.provider.delete_instance("main", true).await;
                deleted.expect("it is deleted");
                sleep(SECOND).await;
                site.begin(id, orchestration, "new").await;
                sleep(SECOND * 8).await;
            };
            let (rewound, others) = site.while_frozen(answers, rewind, others).await;
            if others.is_some() {
                let below = stored(site, "below").await.expect("it exists");
                let state = (below.status, below.current_execution_id);
                let same = (Status::Failed, 1);
                assert_eq!(state, same, "{orchestration}, after {answers}: {rewound:?}");
            }
            others.is_some()
        });
        assert!(positions.await > 8);
    }
}

/// The child runs again, and its parent is not rewound yet.
#[tokio::test(start_paused = true)]
async fn a_purge_keeps_a_tree_whose_rewind_is_under_way() {
    let positions = at_every_position(async |site, answers| {
        fail_tree(site).await;
        site.repair();
        let others = async {
            let mut purge = site.provider.purge_ended(SECOND);
            purge.next_slice().await
        };
        let rewind = site.operator.rewind("main", "ada");
        let (rewound, purged) = site.while_frozen(answers, rewind, others).await;
        let has_stood_still = purged.is_some();
        if let Some(Ok(None)) = &purged {
            site.raise("below").await;
            assert_eq!(
                site.end("main").await,
                "old",
                "after {answers}: {rewound:?}"
            );
        } else if has_stood_still {
            let left = partitions(&site.provider).await;
            assert!(left.is_empty(), "after {answers}: {left:?}, {purged:?}");
        }
        has_stood_still
    });
    assert!(positions.await > 8);
}

/// No runtime takes the start of the child.
#[tokio::test(start_paused = true)]
async fn a_frozen_pause_leaves_nothing_of_a_child_that_has_not_begun() {
    let positions = at_every_position(async |site, answers| {
        site.stop_runtime().await;
        crate::pauses::schedule_child(&site.provider).await;
        sleep(SECOND * 5).await;
        let pause = site.operator.pause("main", Extent::Tree, "ada");
        let others = site.provider.delete_instance("main", true);
        let (paused, deleted) = site.while_frozen(answers, pause, others).await;
        let has_stood_still = deleted.is_some();
        if let Some(deleted) = deleted {
            deleted.expect("it is deleted");
            let left = [stored(site, "main").await, stored(site, "below").await];
            let left: Vec<_> = left.into_iter().flatten().collect();
            assert!(left.is_empty(), "after {answers}: {left:?}, {paused:?}");
        }
        has_stood_still
    });
    assert!(positions.await > 12);
}
