//! Waiting fetches get the items that their process already knows at once, without a poll.
//!
//! Where a test checks that no poll is needed, the poll intervals are minutes. Time is simulated.

mod pending_messages;
mod sessions;
mod wakes;

use std::time::Duration;

use cdb_emulator::OperationKind;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::providers::{
    OrchestrationItem, Provider, ProviderError, SessionFetchConfig, TagFilter, WorkItem,
};

use crate::harness::{PATIENCE, finds_activity, finds_turn};
use crate::several::{enqueue, start};

/// Longer than any test: how long locks last, fetches wait, and no poll is due.
const LONG: Duration = Duration::from_secs(600);

/// Lets the provider poll once when it is opened, and not again during the test.
fn without_polls(config: &mut CosmosDBProviderConfig) {
    (config.min_poll_interval, config.max_poll_interval) = (LONG, LONG);
    config.reconciler_interval = LONG;
}

/// A fresh container, and a provider on it whose first polls are over.
async fn quiet() -> (Backend, CosmosDBProvider) {
    let backend = Backend::start_simulated_with(without_polls).await;
    let provider = backend.provider().await;
    poll_once(&provider).await;
    (backend, provider)
}

/// Lets a provider poll both queues while they are empty.
async fn poll_once(provider: &CosmosDBProvider) {
    assert!(!finds_turn(provider, LONG, Duration::ZERO).await);
    assert!(!finds_activity(provider, LONG, Duration::ZERO).await);
}

/// Returns the number of answered requests of a kind. `None` on an account.
fn count(backend: &Backend, kind: OperationKind) -> Option<u64> {
    let counts = backend.emulator()?.requests().counts;
    Some(counts.get(&kind).copied().unwrap_or_default())
}

/// An activity of an instance.
fn activity(instance: &str, id: u64) -> WorkItem {
    crate::work_items::activity_of(instance, id, None)
}

/// The same activity with a tag.
fn tagged(activity: WorkItem, with: &str) -> WorkItem {
    let mut activity = activity;
    if let WorkItem::ActivityExecute { tag, .. } = &mut activity {
        *tag = Some(with.to_owned());
    }
    activity
}

/// The same activity in a session.
fn in_session(activity: WorkItem, session: &str) -> WorkItem {
    let mut activity = activity;
    if let WorkItem::ActivityExecute { session_id, .. } = &mut activity {
        *session_id = Some(session.to_owned());
    }
    activity
}

/// The event id of an activity.
fn id_of(item: &WorkItem) -> u64 {
    match item {
        WorkItem::ActivityExecute { id, .. } => *id,
        other => panic!("not an activity: {other:?}"),
    }
}

/// Workers that run activities with one tag.
fn only(tag: &str) -> TagFilter {
    TagFilter::tags([tag])
}

/// A worker that takes sessions.
fn owner(id: &str) -> SessionFetchConfig {
    SessionFetchConfig {
        owner_id: id.to_owned(),
        lock_timeout: LONG,
    }
}

/// Returns the result of a fetch that needs no poll.
async fn unpolled<T>(fetch: impl Future<Output = Result<Option<T>, ProviderError>>) -> T {
    let fetched = tokio::time::timeout(PATIENCE, fetch).await;
    let fetched = fetched.expect("it waits for a poll").expect("fetch");
    fetched.expect("the fetch ends with something to do")
}

/// Fetches the next turn.
async fn next_turn(provider: &CosmosDBProvider) -> (OrchestrationItem, String) {
    let fetch = provider.fetch_orchestration_item(LONG, LONG, None);
    let (item, token, _) = unpolled(fetch).await;
    (item, token)
}

/// Commits a turn that sends nothing but these items.
async fn commit(
    provider: &CosmosDBProvider,
    token: &str,
    activities: Vec<WorkItem>,
    messages: Vec<WorkItem>,
) {
    let metadata = crate::work_items::metadata_of("Wait");
    provider
        .ack_orchestration_item(token, 1, vec![], activities, messages, metadata, vec![])
        .await
        .expect("the turn is committed");
}

/// Commits a turn that schedules activities.
async fn schedule(provider: &CosmosDBProvider, instance: &str, activities: Vec<WorkItem>) {
    enqueue(provider, start(instance)).await;
    let (item, token) = next_turn(provider).await;
    assert_eq!(item.instance, instance);
    commit(provider, &token, activities, vec![]).await;
}
