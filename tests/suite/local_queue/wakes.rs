//! A wake reaches a fetch that can use it, and a poll serves every fetch that waits.

use std::time::Duration;

use cdb_emulator::OperationKind;
use cdb_tests::Backend;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, Provider, SemverRange, TagFilter,
};
use futures::poll;

use super::{
    LONG, activity, count, id_of, in_session, next_turn, only, owner, quiet, schedule, tagged,
    unpolled,
};
use crate::several::{enqueue, event, start};

/// Workers with these tags wait in this order. Then an activity is scheduled that only a worker
/// with the tag `b` may run.
async fn goes_to_the_worker_with_its_tag(waiting: &[&str]) {
    let (backend, provider) = quiet().await;
    let filters: Vec<TagFilter> = waiting.iter().map(|tag| only(tag)).collect();
    let mut workers: Vec<_> = filters
        .iter()
        .map(|tags| provider.fetch_work_item(LONG, LONG, None, tags))
        .collect();
    for worker in &mut workers {
        assert!(poll!(worker).is_pending());
    }
    schedule(&provider, "i", vec![tagged(activity("i", 2), "b")]).await;
    let before = count(&backend, OperationKind::Patch);
    let first = async {
        let (fetched, first, _) = futures::future::select_all(workers).await;
        fetched.map(|fetched| fetched.map(|_| waiting[first]))
    };
    assert_eq!(unpolled(first).await, "b");
    // One request for the lock, and none to release a prelock that no worker took.
    let patches = count(&backend, OperationKind::Patch);
    assert!(patches <= before.map(|before| before + 1), "{patches:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_reaches_the_worker_with_its_tag_behind_another_worker() {
    goes_to_the_worker_with_its_tag(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_reaches_the_worker_with_its_tag_between_other_workers() {
    goes_to_the_worker_with_its_tag(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_of_a_session_reaches_the_worker_that_takes_sessions() {
    let (backend, provider) = quiet().await;
    let session = owner("w");
    let any = TagFilter::Any;
    let mut without = provider.fetch_work_item(LONG, LONG, None, &any);
    assert!(poll!(&mut without).is_pending());
    let mut with = provider.fetch_work_item(LONG, LONG, Some(&session), &any);
    assert!(poll!(&mut with).is_pending());
    schedule(&provider, "i", vec![in_session(activity("i", 2), "s")]).await;
    let told_to_ask_again = async {
        assert!(without.await.expect("fetch").is_none());
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = unpolled(with) => {}
        () = told_to_ask_again => {}
    }
    backend.stop().await;
}

fn supports(major: u64) -> DispatcherCapabilityFilter {
    let version = |minor| semver::Version::new(major, minor, 0);
    DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange::new(version(0), version(900))],
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_reaches_the_dispatcher_that_supports_the_version_of_its_instance() {
    let (backend, provider) = quiet().await;
    enqueue(&provider, start("pinned")).await;
    let (_, token) = next_turn(&provider).await;
    let metadata = ExecutionMetadata {
        orchestration_name: Some("Wait".to_owned()),
        pinned_duroxide_version: Some(semver::Version::new(9, 1, 0)),
        ..ExecutionMetadata::default()
    };
    provider
        .ack_orchestration_item(&token, 1, vec![], vec![], vec![], metadata, vec![])
        .await
        .expect("the turn is committed");
    let (older, newer) = (supports(8), supports(9));
    let mut older = provider.fetch_orchestration_item(LONG, LONG, Some(&older));
    assert!(poll!(&mut older).is_pending());
    let mut newer = provider.fetch_orchestration_item(LONG, LONG, Some(&newer));
    assert!(poll!(&mut newer).is_pending());
    enqueue(&provider, event("pinned")).await;
    tokio::select! {
        _ = unpolled(newer) => {}
        fetched = older => panic!("it does not support the version: {fetched:?}"),
    }
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_with_fewer_tags_keeps_what_a_poll_with_more_has_found() {
    let (backend, provider) = quiet().await;
    for (id, tag) in [(2, "a"), (3, "b")] {
        ok!(provider.enqueue_for_worker(tagged(activity("i", id), tag)));
    }
    let both = TagFilter::tags(["a", "b"]);
    let found = provider.fetch_work_item(LONG, Duration::ZERO, None, &both);
    let (found, ..) = found.await.expect("fetch").expect("an activity");
    assert_eq!(id_of(&found), 2);
    let a = only("a");
    let none = provider.fetch_work_item(LONG, Duration::ZERO, None, &a);
    assert!(none.await.expect("fetch").is_none());
    let before = count(&backend, OperationKind::Query);
    let b = only("b");
    let kept = provider.fetch_work_item(LONG, LONG, None, &b);
    let (kept, ..) = unpolled(kept).await;
    assert_eq!(id_of(&kept), 3);
    // The history for the worker, and no poll.
    assert_eq!(count(&backend, OperationKind::Query), before.map(|n| n + 1));
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_without_sessions_keeps_what_a_poll_with_sessions_has_found() {
    let (backend, provider) = quiet().await;
    let items = [activity("i", 2), in_session(activity("i", 3), "s")];
    for item in items {
        ok!(provider.enqueue_for_worker(item));
    }
    let (session, any) = (owner("w"), TagFilter::Any);
    let found = provider.fetch_work_item(LONG, Duration::ZERO, Some(&session), &any);
    let (found, ..) = found.await.expect("fetch").expect("an activity");
    assert_eq!(id_of(&found), 2);
    let none = provider.fetch_work_item(LONG, Duration::ZERO, None, &any);
    assert!(none.await.expect("fetch").is_none());
    let before = count(&backend, OperationKind::Query);
    let kept = provider.fetch_work_item(LONG, LONG, Some(&session), &any);
    let (kept, ..) = unpolled(kept).await;
    assert_eq!(id_of(&kept), 3);
    // The history for the worker, and no poll.
    assert_eq!(count(&backend, OperationKind::Query), before.map(|n| n + 1));
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_serves_workers_with_different_tags() {
    let backend = Backend::start_simulated_with(|config| {
        let interval = Duration::from_millis(100);
        (config.min_poll_interval, config.max_poll_interval) = (interval, interval);
    })
    .await;
    let provider = backend.provider().await;
    let other = backend.provider().await;
    ok!(other.enqueue_for_worker(tagged(activity("i", 2), "b")));
    let [a, b] = ["a", "b"].map(only);
    let first = provider.fetch_work_item(LONG, LONG, None, &a);
    let second = provider.fetch_work_item(LONG, LONG, None, &b);
    tokio::select! {
        // The first worker runs first when a poll is due, so it starts every poll.
        biased;
        fetched = first => panic!("not for the tag `a`: {fetched:?}"),
        _ = unpolled(second) => {}
    }
    backend.stop().await;
}
