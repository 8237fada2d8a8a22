//! Instances that are deleted by force and started again with the same id: what belongs to the deleted
//! one neither delays nor changes the new one. Time is simulated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{NEVER, OrchestratorItem};
use cdb_provider::model::{Document as _, Query};
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider as _, ProviderAdmin as _, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, AppErrorKind, Client, ErrorDetails, Event, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::{Instant, sleep};

use crate::harness::{end_within, next_turn};
use crate::several::{enqueue, start, turn_with};
use crate::work_items::{child_of, child_scheduled, ending, metadata_of, started};

const SECOND: Duration = Duration::from_secs(1);

/// The time within which work that is due begins.
const BOUND: Duration = Duration::from_millis(14_250);

/// Activities that have begun, with their inputs.
type Began = Arc<Mutex<Vec<String>>>;

/// A runtime whose activities take the seconds of their inputs.
async fn runtime(provider: &CosmosDBProvider, began: &Began, workers: usize) -> Arc<Runtime> {
    let began = began.clone();
    let activities = ActivityRegistry::builder()
        .register("Step", move |_: ActivityContext, seconds: String| {
            began.lock().expect("no panic").push(seconds.clone());
            async move {
                sleep(SECOND * seconds.parse().expect("a number")).await;
                Ok(seconds)
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Steps",
            async |ctx: OrchestrationContext, inputs: String| {
                let steps = inputs.split(' ');
                let steps = steps.map(|seconds| ctx.schedule_activity("Step", seconds));
                let ended = ctx.join(steps.collect()).await;
                let ended: Result<Vec<String>, String> = ended.into_iter().collect();
                ended.map(|ended| ended.join(" "))
            },
        )
        .build();
    let options = RuntimeOptions {
        worker_concurrency: workers,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(
        Arc::new(provider.clone()),
        activities,
        orchestrations,
        options,
    )
    .await
}

/// Deletes an instance while these activities run, starts it again with others, and checks that the new
/// ones begin within the bound.
async fn recreate(workers: usize, old: &str, new: &str) {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    let client = Client::new(Arc::new(backend.provider().await));
    let began = Began::default();
    let runtime = runtime(&provider, &began, workers).await;
    ok!(client.start_orchestration("main", "Steps", old));
    sleep(SECOND * 5).await;
    ok!(client.delete_instance("main", true));
    began.lock().expect("no panic").clear();
    let started = Instant::now();
    ok!(client.start_orchestration("main", "Steps", new));
    let all = new.split(' ').count();
    while began.lock().expect("no panic").len() < all {
        sleep(SECOND / 4).await;
        let took = started.elapsed();
        assert!(took < BOUND, "{workers} workers, {old}: {took:?}");
    }
    let ended = end_within(&client, "main", SECOND * 300).await;
    match ended.expect("it ends") {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, new),
        other => panic!("{other:?}"),
    }
    runtime.shutdown(None).await;
    backend.stop().await;
}

/// The new activity has the same number, and the same process runs it.
#[tokio::test(start_paused = true)]
async fn the_activity_of_a_recreated_instance_does_not_wait_for_the_old_one() {
    recreate(2, "100", "3").await;
    recreate(8, "100 100 100", "3 3 3").await;
}

/// Commits the first turn of an instance, which schedules a child.
async fn schedule_child(provider: &CosmosDBProvider) {
    let (turn, token, _) = turn_with(provider, start("main"), SECOND * 60).await;
    assert_eq!(turn.instance, "main");
    let kinds = [started("Wait", ""), child_scheduled("Wait", "below")];
    let event = |(id, kind)| Event::with_event_id(id, "main", 1, None, kind);
    let events = (1..).zip(kinds).map(event).collect();
    let child = child_of("main", start("below"));
    let metadata = metadata_of("Wait");
    let committed =
        provider.ack_orchestration_item(&token, 1, events, vec![], vec![child], metadata, vec![]);
    committed.await.expect("the turn is committed");
}

/// Commits the only turn of the child.
async fn end_child(provider: &CosmosDBProvider, result: Result<&str, ErrorDetails>) {
    let (turn, token, _) = next_turn(provider, SECOND * 60).await;
    assert_eq!(turn.instance, "below");
    let (parent_instance, parent_execution_id, parent_id) = ("main".to_owned(), 1, 2);
    let sent = match result {
        Ok(result) => WorkItem::SubOrchCompleted {
            parent_instance,
            parent_execution_id,
            parent_id,
            result: result.to_owned(),
        },
        Err(details) => WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id,
            parent_id,
            details,
        },
    };
    let begun = started("Wait", "");
    let events = vec![Event::with_event_id(1, "below", 1, None, begun)];
    let metadata = ExecutionMetadata {
        parent_instance_id: Some("main".to_owned()),
        ..ending("Completed")
    };
    let committed =
        provider.ack_orchestration_item(&token, 1, events, vec![], vec![sent], metadata, vec![]);
    committed.await.expect("the turn is committed");
}

/// The end of a child is delivered a second time, late: its parent was deleted, and started again with
/// the same ids. It reaches neither a parent that has not begun nor one that waits for its own child.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_child_reaches_no_later_parent_of_its_id() {
    let failed = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: "old".to_owned(),
        retryable: false,
    };
    for old in [Ok("old"), Err(failed)] {
        for (has_begun, is_known) in [(false, false), (true, false), (true, true)] {
            let backend = Backend::start_simulated().await;
            let (first, client) = (backend.provider().await, backend.provider().await);
            schedule_child(&first).await;
            end_child(&first, old.clone()).await;
            sleep(SECOND * 5).await;
            let ended = Query::<OrchestratorItem>::in_partition("main");
            let ended = ended.filter(OrchestratorItem::VISIBLE_AT.lt(NEVER));
            let ended = client.container().query(ended).first().await;
            let ended = ended.expect("a query").expect("it is delivered").document;
            ok!(client.delete_instance("main", true));
            // A process that knows the new parent, or one that knows nothing.
            let second = backend.provider().await;
            if has_begun {
                schedule_child(&second).await;
            } else {
                enqueue(&client, start("main")).await;
            }
            let again = client.container().run(ended.create()).await;
            again.expect("it is delivered again");
            let other = backend.provider().await;
            let provider = if is_known { &second } else { &other };
            if has_begun {
                end_child(provider, Ok("new")).await;
            }
            let (turn, ..) = next_turn(provider, SECOND * 60).await;
            assert_eq!(turn.instance, "main");
            let results = turn.messages.iter().filter_map(|message| match message {
                WorkItem::SubOrchCompleted { result, .. } => Some(&**result),
                WorkItem::SubOrchFailed { .. } => Some("failed"),
                _ => None,
            });
            let expected = if has_begun { vec!["new"] } else { vec![] };
            assert_eq!(results.collect::<Vec<_>>(), expected, "{:?}", turn.messages);
            backend.stop().await;
        }
    }
}
