//! An activity of a session starts as soon as a worker may take its session.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::OperationKind;
use cdb_provider::documents::SessionKey;
use cdb_tests::Backend;
use duroxide::providers::{Provider, SessionFetchConfig, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use futures::poll;
use tokio::sync::{Semaphore, mpsc};

use super::{LONG, activity, count, id_of, in_session, owner, quiet, schedule, unpolled};
use crate::harness::{PATIENCE, end_of};
use crate::network::{BATCH, PATCH, on_network};

/// The default lock of activities and sessions.
const LOCK: Duration = Duration::from_secs(30);

/// Activities that report their start, and end on a permit.
fn activities(begun: mpsc::UnboundedSender<String>, may_end: Arc<Semaphore>) -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Work", move |_: ActivityContext, name: String| {
            let (begun, may_end) = (begun.clone(), may_end.clone());
            async move {
                begun.send(name).map_err(|error| error.to_string())?;
                may_end
                    .acquire()
                    .await
                    .map_err(|error| error.to_string())?
                    .forget();
                Ok(String::new())
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Both", |ctx: OrchestrationContext, _: String| async move {
            let first = ctx.schedule_activity_on_session("Work", "A", "1");
            let second = ctx.schedule_activity_on_session("Work", "B", "2");
            ctx.join(vec![first, second]).await;
            Ok(String::new())
        })
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_session_does_not_starve_while_its_runtime_is_at_its_limit_of_sessions() {
    let (backend, provider) = quiet().await;
    let store = Arc::new(provider);
    let (begun, mut begins) = mpsc::unbounded_channel();
    let may_end = Arc::new(Semaphore::new(0));
    let options = RuntimeOptions {
        worker_concurrency: 2,
        max_sessions_per_runtime: 1,
        // A waiting worker does not fetch again during the test.
        dispatcher_long_poll_timeout: LONG,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(
        store.clone(),
        activities(begun, may_end.clone()),
        orchestrations(),
        options,
    )
    .await;
    let client = Client::new(store);
    ok!(client.start_orchestration("i", "Both", ""));
    let first = begins.recv().await.expect("an activity begins");
    // The other worker has fetched and released the other activity, or does so later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    may_end.add_permits(1);
    let second = tokio::time::timeout(PATIENCE, begins.recv()).await;
    let second = second.expect("the other activity waits for a poll");
    assert_ne!(second, Some(first));
    may_end.add_permits(1);
    let ended = end_of(&client, "i").await;
    assert!(matches!(ended, OrchestrationStatus::Completed { .. }));
    runtime.shutdown(None).await;
    backend.stop().await;
}

fn completed(item: &WorkItem) -> WorkItem {
    crate::work_items::completion_of("i", id_of(item), "")
}

/// What the runtime of the test above does, call by call.
#[tokio::test(start_paused = true)]
async fn a_fetch_without_sessions_ends_when_another_fetch_may_take_sessions_again() {
    let (backend, provider) = quiet().await;
    let [one, two] = ["1", "2"].map(owner);
    let any = TagFilter::Any;
    let both = [(2, "A"), (3, "B")].map(|(id, session)| in_session(activity("i", id), session));
    schedule(&provider, "i", both.to_vec()).await;
    let fetched = provider.fetch_work_item(LONG, LONG, Some(&one), &any);
    let (a, a_token, _) = unpolled(fetched).await;
    let fetched = provider.fetch_work_item(LONG, LONG, Some(&two), &any);
    let (_, b_token, _) = unpolled(fetched).await;
    // One session too many: worker 2 releases it and fetches without sessions.
    let given_back = provider.abandon_work_item(&b_token, None, true).await;
    given_back.expect("B is given back");
    let mut without = provider.fetch_work_item(LONG, LONG, None, &any);
    assert!(poll!(&mut without).is_pending());
    let ended = provider.ack_work_item(&a_token, Some(completed(&a))).await;
    ended.expect("A ends");
    // Session B belongs to worker 2, whose fetch has to end so that it fetches with sessions.
    let mut with = provider.fetch_work_item(LONG, LONG, Some(&one), &any);
    tokio::select! {
        fetched = without => assert!(fetched.expect("fetch").is_none()),
        fetched = &mut with => panic!("the session of B is held by worker 2: {fetched:?}"),
        () = tokio::time::sleep(PATIENCE) => panic!("worker 2 is not asked to ask again"),
    }
    let fetched = provider.fetch_work_item(LONG, LONG, Some(&two), &any);
    let (b, ..) = unpolled(fetched).await;
    assert_eq!(id_of(&b), 3);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_activity_of_a_session_needs_no_poll_when_two_workers_race_for_the_session() {
    let (backend, provider) = quiet().await;
    let owners = ["1", "2"].map(owner);
    let any = TagFilter::Any;
    let mut workers = owners
        .each_ref()
        .map(|owner| provider.fetch_work_item(LONG, LONG, Some(owner), &any));
    for worker in &mut workers {
        assert!(poll!(worker).is_pending());
    }
    let both = [2, 3].map(|id| in_session(activity("i", id), "s"));
    schedule(&provider, "i", both.to_vec()).await;
    let (fetched, winner, others) = futures::future::select_all(workers).await;
    let (first, ..) = fetched.expect("fetch").expect("an activity");
    // The other worker continues its attempt while the winner fetches more.
    let next = provider.fetch_work_item(LONG, LONG, Some(&owners[winner]), &any);
    tokio::select! {
        (second, ..) = unpolled(next) => assert_ne!(id_of(&first), id_of(&second)),
        (fetched, ..) = futures::future::select_all(others) => {
            panic!("the winner holds the session: {fetched:?}");
        }
    }
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_is_found_behind_many_of_a_session_that_another_process_holds() {
    let (backend, provider) = quiet().await;
    let other = backend.provider().await;
    let (theirs, ours, any) = (owner("theirs"), owner("ours"), TagFilter::Any);
    // More than one poll returns.
    for id in 2..102 {
        let item = in_session(activity("i", id), "s");
        other.enqueue_for_worker(item).await.expect("stored");
    }
    let held = other.fetch_work_item(LONG, Duration::ZERO, Some(&theirs), &any);
    assert!(held.await.expect("fetch").is_some());
    let free = activity("i", 200);
    other.enqueue_for_worker(free).await.expect("stored");
    let mut found = None;
    for _ in 0..5 {
        let polled = provider.fetch_work_item(LONG, Duration::ZERO, Some(&ours), &any);
        found = found.or(polled.await.expect("fetch"));
    }
    let (found, ..) = found.expect("it is found by one of five polls");
    assert_eq!(id_of(&found), 200);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_session_of_another_worker_is_not_read_again_at_once() {
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        return backend.stop().await;
    };
    let provider = backend.provider().await;
    let until = provider.container().now() + Duration::from_secs(30);
    let session = serde_json::json!({
        "id": "i:session:s", "type": "session", "instanceId": "i", "sessionId": "s",
        "ownerId": "theirs", "lockedUntil": until.as_millis(), "lastActivity": "never",
    });
    let stored = provider.container();
    ok!(stored.upsert_json(&"i".into(), &session.to_string()));
    let item = in_session(activity("i", 2), "s");
    provider.enqueue_for_worker(item).await.expect("stored");
    emulator.reset_requests();
    let worker = owner("ours");
    let wait = Duration::from_secs(3);
    let fetched = provider.fetch_work_item(LOCK, wait, Some(&worker), &TagFilter::Any);
    assert!(fetched.await.expect("fetch").is_none(), "it is held");
    let reads = count(&backend, OperationKind::Read).unwrap_or_default();
    assert!(reads <= 2, "{reads} reads in {wait:?}");
    // The session has expired by then, and is replaced.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let fetched = provider.fetch_work_item(LOCK, wait, Some(&worker), &TagFilter::Any);
    assert!(fetched.await.expect("fetch").is_some(), "it is free");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_shows_the_time_at_which_its_activity_has_ended() {
    let (backend, network, provider) = or_skip!(on_network().await);
    let item = in_session(activity("i", 2), "s");
    provider.enqueue_for_worker(item).await.expect("stored");
    let worker = SessionFetchConfig {
        owner_id: "worker".to_owned(),
        lock_timeout: LOCK,
    };
    let fetched = provider.fetch_work_item(LOCK, LOCK, Some(&worker), &TagFilter::Any);
    let (item, token, _) = fetched.await.expect("fetch").expect("an activity");
    let late = Duration::from_secs(8);
    let last_activity = async || {
        let key = SessionKey::new("i", "s");
        let session = provider.container().read(&key).await.expect("a read");
        session.expect("it exists").document.last_activity
    };
    let begun = provider.container().now();
    network.slow_down(PATCH, late);
    ok!(provider.renew_work_item_lock(&token, LOCK));
    network.repair();
    let renewed = last_activity().await;
    assert!(
        renewed >= begun + late,
        "{renewed:?} is before {begun:?} + {late:?}"
    );
    let begun = provider.container().now();
    network.slow_down(BATCH, late);
    ok!(provider.ack_work_item(&token, Some(completed(&item))));
    let ended = last_activity().await;
    assert!(
        ended >= begun + late,
        "{ended:?} is before {begun:?} + {late:?}"
    );
    backend.stop().await;
}
