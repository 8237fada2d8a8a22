//! Operators and retention whose process stands still between two requests, for less than the deadline
//! of a request, while others delete, rewind and start instances with the same ids. They go on with the
//! instances that they have found, and with no others. Each test tries every position at which the
//! process may stand still. Time is simulated.

mod site;
mod unbegun;

use cdb_provider::TreeScope;
use cdb_provider::documents::{Instance, InstanceKey, Status};
use duroxide::providers::{Provider as _, ProviderAdmin as _, PruneOptions};
use tokio::time::{Instant, sleep};

use crate::retention::partitions;
use site::{SECOND, Site};

/// More answers than a call gets.
const MOST_ANSWERS: usize = 60;

/// Runs a test at every position at which an operator may stand still, until it does not any more, which
/// the test tells by `None`. There are more positions than `least`.
async fn at_every_position(least: usize, test: impl AsyncFn(&Site, usize) -> Option<()>) {
    for answers in 0..MOST_ANSWERS {
        let site = or_skip!(Site::open().await);
        let has_stood_still = Box::pin(test(&site, answers)).await.is_some();
        site.close().await;
        if !has_stood_still {
            assert!(answers > least, "only {answers} positions");
            return;
        }
    }
    panic!("the call sends too many requests");
}

/// What is started after `main` and its child `below` are deleted.
#[derive(Clone, Copy)]
enum Started {
    /// The id of the child as an instance of its own.
    Below,
    /// The same tree.
    Tree,
}

impl Started {
    const fn id(self) -> &'static str {
        match self {
            Self::Below => "below",
            Self::Tree => "main",
        }
    }
}

async fn delete_and_start(site: &Site, started: Started, force: bool) {
    // The operator may have deleted it.
    let _deleted = site.provider.delete_instance("main", force).await;
    sleep(SECOND).await;
    let orchestration = match started {
        Started::Below => "Waiter",
        Started::Tree => "Above",
    };
    site.begin(started.id(), orchestration, "new").await;
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

/// A call of the operator on `main` and its child.
#[derive(Clone, Copy)]
enum Call {
    ForcedDeletion,
    /// Of a tree that has ended.
    Deletion,
    Pause,
}

/// While the call stands still, others delete the tree and start something, which goes on.
async fn spares(call: Call, started: Started) {
    let least = if matches!(call, Call::Pause) { 12 } else { 8 };
    at_every_position(least, async |site, answers| {
        let force = !matches!(call, Call::Deletion);
        if force {
            begin_tree(site).await;
        } else {
            end_tree(site).await;
        }
        let called = async {
            match call {
                Call::Pause => {
                    let paused = site.operator.pause("main", TreeScope::Tree, "ada").await;
                    format!("{paused:?}")
                }
                _ => format!("{:?}", site.operator.delete_instance("main", force).await),
            }
        };
        let others = delete_and_start(site, started, force);
        let (called, ()) = site.while_frozen(answers, called, others).await?;
        check_goes_on(site, started.id(), answers, &called).await;
        Some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_an_instance_that_is_no_child_any_more() {
    spares(Call::ForcedDeletion, Started::Below).await;
}

/// The same for a deletion of an ended tree, when no runtime has begun the new instance.
#[tokio::test(start_paused = true)]
async fn a_frozen_deletion_keeps_the_start_of_a_recreated_instance() {
    at_every_position(8, async |site, answers| {
        end_tree(site).await;
        site.stop_runtime().await;
        let deletion = site.operator.delete_instance("main", false);
        let others = delete_and_start(site, Started::Below, false);
        let (deleted, ()) = site.while_frozen(answers, deletion, others).await?;
        let left = partitions(&site.provider).await;
        assert!(left.contains("below"), "after {answers}: {deleted:?}");
        Some(())
    })
    .await;
}

/// The new instance has ended too.
#[tokio::test(start_paused = true)]
async fn a_frozen_deletion_keeps_the_result_of_a_recreated_instance() {
    at_every_position(8, async |site, answers| {
        end_tree(site).await;
        let deletion = site.operator.delete_instance("main", false);
        let others = async {
            delete_and_start(site, Started::Below, false).await;
            check_goes_on(site, "below", answers, &"it is started").await;
        };
        let (deleted, ()) = site.while_frozen(answers, deletion, others).await?;
        let left = partitions(&site.provider).await;
        assert!(left.contains("below"), "after {answers}: {deleted:?}");
        Some(())
    })
    .await;
}

/// A purge, or the retention of a runtime.
#[tokio::test(start_paused = true)]
async fn a_frozen_purge_keeps_an_instance_that_is_no_child_any_more() {
    at_every_position(4, async |site, answers| {
        end_tree(site).await;
        let mut purge = site.operator.purge_ended(SECOND);
        let others = delete_and_start(site, Started::Below, false);
        let (purged, ()) = site
            .while_frozen(answers, purge.next_slice(), others)
            .await?;
        check_goes_on(site, "below", answers, &purged).await;
        Some(())
    })
    .await;
}

/// The purge has read that the failed tree has ended. Then the rewound child runs again, and its parent
/// waits for it.
#[tokio::test(start_paused = true)]
async fn a_frozen_purge_keeps_a_rewound_tree() {
    at_every_position(4, async |site, answers| {
        fail_tree(site).await;
        site.repair();
        let mut purge = site.operator.purge_ended(SECOND);
        let others = site.provider.rewind("main", "bob");
        let (purged, others) = site
            .while_frozen(answers, purge.next_slice(), others)
            .await?;
        if others.is_ok() {
            site.raise("below").await;
            assert_eq!(site.end("main").await, "old", "after {answers}: {purged:?}");
        }
        Some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_prune_keeps_the_history_of_a_recreated_instance() {
    at_every_position(4, async |site, answers| {
        site.begin("main", "Again", "4").await;
        sleep(SECOND * 10).await;
        let options = PruneOptions {
            keep_last: Some(1),
            ..PruneOptions::default()
        };
        let others = async {
            ok!(site.provider.delete_instance("main", true));
            site.begin("main", "Again", "2").await;
            sleep(SECOND * 5).await;
            kept(site).await
        };
        let pruned = site.operator.prune_executions("main", options);
        let (pruned, before) = site.while_frozen(answers, pruned, others).await?;
        assert_eq!(kept(site).await, before, "after {answers}: {pruned:?}");
        Some(())
    })
    .await;
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
    at_every_position(12, async |site, answers| {
        begin_tree(site).await;
        let pause = site.operator.pause("main", TreeScope::Tree, "ada");
        let others = site.provider.delete_instance("main", true);
        let (paused, deleted) = site.while_frozen(answers, pause, others).await?;
        deleted.expect("it is deleted");
        sleep(SECOND * 10).await;
        let left = partitions(&site.provider).await;
        assert!(left.is_empty(), "after {answers}: {left:?}, {paused:?}");
        Some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_pause_of_a_tree_pauses_no_other_instance() {
    spares(Call::Pause, Started::Below).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_a_recreated_tree() {
    spares(Call::ForcedDeletion, Started::Tree).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_deletion_keeps_a_recreated_tree() {
    spares(Call::Deletion, Started::Tree).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_pause_does_not_pause_a_recreated_tree() {
    spares(Call::Pause, Started::Tree).await;
}

async fn stored(site: &Site, id: &str) -> Option<Instance> {
    let found = site.provider.container().read(&InstanceKey::new(id)).await;
    found.expect("it is readable").map(|found| found.document)
}

/// Another operator has paused the instance that has the id of the child now.
#[tokio::test(start_paused = true)]
async fn a_frozen_resumption_of_a_tree_resumes_no_other_instance() {
    at_every_position(8, async |site, answers| {
        begin_tree(site).await;
        ok!(site.provider.pause("main", TreeScope::Tree, "ada"));
        let others = async {
            delete_and_start(site, Started::Below, true).await;
            ok!(site.provider.pause("below", TreeScope::Alone, "bob"));
        };
        let resumption = site.operator.resume("main", TreeScope::Tree);
        let (resumed, ()) = site.while_frozen(answers, resumption, others).await?;
        let below = stored(site, "below").await.expect("it exists");
        assert!(below.paused.is_some(), "after {answers}: {resumed:?}");
        Some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_resumption_leaves_nothing_of_a_deleted_tree() {
    at_every_position(8, async |site, answers| {
        begin_tree(site).await;
        ok!(site.provider.pause("main", TreeScope::Tree, "ada"));
        let others = site.provider.delete_instance("main", true);
        let resumption = site.operator.resume("main", TreeScope::Tree);
        let (resumed, _deleted) = site.while_frozen(answers, resumption, others).await?;
        sleep(SECOND * 10).await;
        let left = partitions(&site.provider).await;
        assert!(left.is_empty(), "after {answers}: {left:?}, {resumed:?}");
        Some(())
    })
    .await;
}

async fn fail_tree(site: &Site) {
    site.begin("main", "AboveFragile", "old").await;
    let failed = site.end("main").await;
    assert!(failed.contains("broken"), "{failed}");
    sleep(SECOND * 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_rewind_leaves_nothing_of_a_deleted_tree() {
    at_every_position(8, async |site, answers| {
        fail_tree(site).await;
        let others = site.provider.delete_instance("main", true);
        let rewind = site.operator.rewind("main", "ada");
        let (rewound, _deleted) = site.while_frozen(answers, rewind, others).await?;
        // Otherwise it was rewound before.
        if rewound.is_err() {
            sleep(SECOND * 10).await;
            let left = partitions(&site.provider).await;
            assert!(left.is_empty(), "after {answers}: {left:?}, {rewound:?}");
        }
        Some(())
    })
    .await;
}

/// The id of the child has an instance of its own, or a child of a later tree, which has failed too.
#[tokio::test(start_paused = true)]
async fn a_frozen_rewind_rewinds_no_other_instance() {
    for orchestration in ["Fragile", "AboveFragile"] {
        let id = match orchestration {
            "Fragile" => "below",
            _ => "main",
        };
        at_every_position(8, async |site, answers| {
            fail_tree(site).await;
            let rewind = site.operator.rewind("main", "ada");
            let others = async {
                ok!(site.provider.delete_instance("main", true));
                sleep(SECOND).await;
                site.begin(id, orchestration, "new").await;
                sleep(SECOND * 8).await;
            };
            let (rewound, ()) = site.while_frozen(answers, rewind, others).await?;
            let below = stored(site, "below").await.expect("it exists");
            let state = (below.status, below.current_execution_id);
            let same = (Status::Failed, 1);
            assert_eq!(state, same, "{orchestration}, after {answers}: {rewound:?}");
            Some(())
        })
        .await;
    }
}

/// The child runs again, and its parent is not rewound yet.
#[tokio::test(start_paused = true)]
async fn a_purge_keeps_a_tree_whose_rewind_is_under_way() {
    at_every_position(8, async |site, answers| {
        fail_tree(site).await;
        site.repair();
        let others = async {
            let mut purge = site.provider.purge_ended(SECOND);
            purge.next_slice().await
        };
        let rewind = site.operator.rewind("main", "ada");
        let (rewound, purged) = site.while_frozen(answers, rewind, others).await?;
        if let Ok(None) = &purged {
            site.raise("below").await;
            assert_eq!(
                site.end("main").await,
                "old",
                "after {answers}: {rewound:?}"
            );
        } else {
            let left = partitions(&site.provider).await;
            assert!(left.is_empty(), "after {answers}: {left:?}, {purged:?}");
        }
        Some(())
    })
    .await;
}

/// No runtime takes the start of the child.
#[tokio::test(start_paused = true)]
async fn a_frozen_pause_leaves_nothing_of_a_child_that_has_not_begun() {
    at_every_position(12, async |site, answers| {
        site.stop_runtime().await;
        crate::pauses::schedule_child(&site.provider).await;
        sleep(SECOND * 5).await;
        let pause = site.operator.pause("main", TreeScope::Tree, "ada");
        let others = site.provider.delete_instance("main", true);
        let (paused, deleted) = site.while_frozen(answers, pause, others).await?;
        deleted.expect("it is deleted");
        let left = [stored(site, "main").await, stored(site, "below").await];
        let left: Vec<_> = left.into_iter().flatten().collect();
        assert!(left.is_empty(), "after {answers}: {left:?}, {paused:?}");
        Some(())
    })
    .await;
}
