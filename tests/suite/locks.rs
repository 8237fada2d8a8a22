//! A lock that is lost is lost: whoever was paused or renewed late never commits what another runtime has taken over.
//!
//! Processes that are stopped and continued (SIGSTOP) are in `tests/chaos`; here the request itself is late, which is
//! the worst moment to be stopped at.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, TagFilter, WorkItem};

use crate::harness::PATIENCE;
use crate::several::{ack, enqueue, start};

/// A lock that ends soon.
const SHORT: Duration = Duration::from_millis(500);
/// How late a request is that was sent in time.
const LATE: Duration = Duration::from_millis(1500);
const LONG: Duration = Duration::from_secs(60);

/// Makes the next request of a kind arrive when the lock under which it was sent has long ended.
fn delay_next(emulator: &Emulator, kind: OperationKind) {
    let late = Effect::Delay(LATE.into());
    emulator.inject(Fault::once(late).on(kind));
}

fn is_lost(result: &Result<(), ProviderError>) -> bool {
    matches!(result, Err(error) if error.message.starts_with("Invalid lock token"))
}

#[tokio::test]
async fn a_commit_that_arrives_after_its_lock_has_ended_changes_nothing() {
    let backend = Backend::start().await;
    let Some(emulator) = backend.emulator() else {
        return backend.stop().await;
    };
    let (slow, quick) = (backend.provider().await, backend.provider().await);
    enqueue(&slow, start("shared")).await;
    let fetched = slow.fetch_orchestration_item(SHORT, PATIENCE, None).await;
    let (_, slow_token, _) = fetched.expect("fetch").expect("a turn");
    // The commit, and the question whether it took place.
    delay_next(emulator, OperationKind::Batch);
    delay_next(emulator, OperationKind::Read);
    let empty = ExecutionMetadata::default();
    let (late, ()) = tokio::join!(
        slow.ack_orchestration_item(&slow_token, 1, vec![], vec![], vec![], empty, vec![]),
        async {
            // The delayed requests are on their way, and take the faults with them.
            tokio::time::sleep(SHORT).await;
            let fetched = quick.fetch_orchestration_item(LONG, PATIENCE, None).await;
            let (item, token, _) = fetched.expect("fetch").expect("the lock has ended");
            ack(&quick, &item, &token).await;
        }
    );
    assert!(is_lost(&late), "{late:?}");
    let history = slow.read("shared").await.expect("a history");
    assert_eq!(history.len(), 1, "the quick one's");
    backend.stop().await;
}

#[tokio::test]
async fn a_renewal_that_arrives_late_does_not_bring_the_lock_back() {
    let backend = Backend::start().await;
    let Some(emulator) = backend.emulator() else {
        return backend.stop().await;
    };
    let (slow, quick) = (backend.provider().await, backend.provider().await);
    enqueue(&slow, start("shared")).await;
    let fetched = slow.fetch_orchestration_item(SHORT, PATIENCE, None).await;
    let (_, slow_token, _) = fetched.expect("fetch").expect("a turn");
    delay_next(emulator, OperationKind::Patch);
    let (renewed, next) = tokio::join!(
        slow.renew_orchestration_item_lock(&slow_token, LONG),
        async {
            tokio::time::sleep(SHORT / 2).await;
            let fetched = quick.fetch_orchestration_item(LONG, PATIENCE, None).await;
            fetched.expect("fetch").expect("the lock has ended")
        }
    );
    assert!(is_lost(&renewed), "{renewed:?}");
    let empty = ExecutionMetadata::default();
    let late = slow
        .ack_orchestration_item(&slow_token, 1, vec![], vec![], vec![], empty, vec![])
        .await;
    assert!(is_lost(&late), "{late:?}");
    let (item, token, _) = next;
    ack(&quick, &item, &token).await;
    backend.stop().await;
}

pub(crate) fn activity() -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "shared".to_owned(),
        execution_id: 1,
        id: 2,
        name: "Work".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

pub(crate) fn completed(result: &str) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: "shared".to_owned(),
        execution_id: 1,
        id: 2,
        result: result.to_owned(),
    }
}

#[tokio::test]
async fn an_activity_that_ends_after_its_lock_leaves_nothing() {
    let backend = Backend::start().await;
    let Some(emulator) = backend.emulator() else {
        return backend.stop().await;
    };
    let (slow, quick) = (backend.provider().await, backend.provider().await);
    let enqueued = slow.enqueue_for_worker(activity()).await;
    enqueued.expect("the activity is stored");
    let any = TagFilter::Any;
    let fetched = slow.fetch_work_item(SHORT, PATIENCE, None, &any).await;
    let (_, slow_token, _) = fetched.expect("fetch").expect("an activity");
    delay_next(emulator, OperationKind::Batch);
    let (late, ()) = tokio::join!(
        slow.ack_work_item(&slow_token, Some(completed("slow"))),
        async {
            tokio::time::sleep(SHORT / 2).await;
            let fetched = quick.fetch_work_item(LONG, PATIENCE, None, &any).await;
            let (_, token, attempt) = fetched.expect("fetch").expect("the lock has ended");
            assert_eq!(attempt, 2);
            let ended = quick.ack_work_item(&token, Some(completed("quick"))).await;
            ended.expect("it is the quick one's");
        }
    );
    assert!(is_lost(&late), "{late:?}");
    enqueue(&quick, start("shared")).await;
    let fetched = quick.fetch_orchestration_item(LONG, PATIENCE, None).await;
    let (item, ..) = fetched.expect("fetch").expect("a turn");
    let results: Vec<&WorkItem> = item
        .messages
        .iter()
        .filter(|message| matches!(message, WorkItem::ActivityCompleted { .. }))
        .collect();
    assert_eq!(results, [&completed("quick")]);
    backend.stop().await;
}
