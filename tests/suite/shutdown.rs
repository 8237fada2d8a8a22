//! The shutdown of a runtime: it releases its locks, finishes its work or leaves it to others, and
//! ends all its tasks.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::{CosmosDBProvider, MemberState, MembershipConfig};
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider, SessionFetchConfig};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::sync::Semaphore;

use crate::harness::{Wait, end_of, eventually, next_activity, next_turn};
use crate::network::{ANY, BATCH, on_network};
use crate::several::{ack, enqueue, event, run_turn, start, turn_with};

/// Longer than any wait, so that no test passes because a lock expired.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// The grace period of a shutdown.
const GRACE: Duration = Duration::from_secs(300);

/// The activities of a runtime: permits to end, started and ended activities.
#[derive(Clone)]
struct Work {
    permits: Arc<Semaphore>,
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Work {
    /// Lets `permits` activities end. The others run until there are more permits.
    fn with_permits(permits: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            begun: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// Every activity ends at once.
    fn quick() -> Self {
        Self::with_permits(Semaphore::MAX_PERMITS)
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    async fn run(self, input: String) -> Result<String, String> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let permit = self.permits.acquire().await;
        permit.map_err(|closed| closed.to_string())?.forget();
        self.ended.fetch_add(1, Ordering::Relaxed);
        Ok(input)
    }
}

/// A runtime whose locks last longer than the test.
async fn runtime(provider: &CosmosDBProvider, work: &Work) -> Arc<Runtime> {
    let work = work.clone();
    let work = move |_: ActivityContext, input: String| work.clone().run(input);
    let activities = ActivityRegistry::builder().register("Work", work).build();
    let chain = |ctx: OrchestrationContext, input: String| async move {
        for step in 0..3 {
            ctx.schedule_activity("Work", step.to_string()).await?;
        }
        Ok(input)
    };
    let session = |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity_on_session("Work", input, "desk")
            .await
    };
    let parent = |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_sub_orchestration("Session", input).await
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Chain", chain)
        .register("Session", session)
        .register("Parent", parent)
        .build();
    let options = RuntimeOptions {
        orchestrator_lock_timeout: LONG,
        worker_lock_timeout: LONG,
        session_lock_timeout: LONG,
        session_idle_timeout: LONG,
        ..RuntimeOptions::default()
    };
    let store = Arc::new(provider.clone());
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

async fn begin(client: &Client, instance: &str, orchestration: &str) {
    ok!(client.start_orchestration(instance, orchestration, "x"));
}

async fn ends(client: &Client, instance: &str) {
    match end_of(client, instance).await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, "x"),
        other => panic!("{instance}: {other:?}"),
    }
}

/// Fails if the shutdown takes longer than its grace period.
async fn in_time(shutdown: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(GRACE * 2, shutdown).await;
    ended.expect("the shutdown ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_work_is_finished_in_time_and_another_runtime_does_the_rest() {
    let backend = Backend::start().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    let client = Client::new(Arc::new(second.clone()));
    let work = Work::with_permits(5);
    let running = runtime(&first, &work).await;
    let instances: Vec<String> = (0..20).map(|n| format!("chain-{n}")).collect();
    for instance in &instances {
        begin(&client, instance, "Chain").await;
    }
    eventually(async || work.ended() == 5 && work.begun() > 5).await;
    let grace = u64::try_from(GRACE.as_millis()).expect("it fits");
    in_time(async {
        let shutdown = running.shutdown(Some(grace));
        // Running activities end after the shutdown has begun.
        let go_on = async { work.permits.add_permits(1000) };
        tokio::join!(biased; shutdown, go_on);
        first.shutdown(GRACE).await;
    })
    .await;
    let done = work.ended();
    assert!((6..60).contains(&done), "{done} were finished");
    assert_eq!(work.begun(), done, "what was under way was finished");
    let rest = runtime(&second, &work).await;
    for instance in &instances {
        ends(&client, instance).await;
    }
    assert_eq!(work.ended(), 60, "no activity ran twice");
    rest.shutdown(None).await;
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_work_is_taken_over_at_once_with_its_session() {
    let backend = Backend::start().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    let client = Client::new(Arc::new(second.clone()));
    let endless = Work::with_permits(0);
    let slow = runtime(&first, &endless).await;
    begin(&client, "bound", "Session").await;
    begin(&client, "free", "Chain").await;
    eventually(async || endless.begun() == 2).await;
    slow.shutdown(Some(100)).await;
    in_time(first.shutdown(GRACE)).await;
    let quick = Work::quick();
    let rest = runtime(&second, &quick).await;
    ends(&client, "bound").await;
    ends(&client, "free").await;
    assert_eq!((endless.ended(), quick.ended()), (0, 4));
    rest.shutdown(None).await;
    backend.stop().await;
}

#[tokio::test]
async fn every_lock_is_released_without_counting_the_attempt() {
    let backend = Backend::start().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    // A turn that a dispatcher runs, and one that is prelocked for it.
    enqueue(&first, start("begun")).await;
    next_turn(&first, LONG).await;
    enqueue(&first, start("ahead")).await;
    // A running activity with a session, and one without.
    for (id, session) in [(1, None), (2, Some("desk"))] {
        let item = crate::work_items::activity_of("begun", id, session);
        ok!(first.enqueue_for_worker(item));
    }
    for _ in 0..2 {
        activity(&first, "first").await;
    }
    first.shutdown(GRACE).await;
    let mut found = Vec::new();
    for _ in 0..2 {
        let (item, token, attempts) = next_turn(&second, LONG).await;
        assert_eq!(attempts, 1, "{}", item.instance);
        ack(&second, &item, &token).await;
        found.push(item.instance);
        assert_eq!(activity(&second, "second").await, 1);
    }
    found.sort();
    assert_eq!(found, ["ahead", "begun"]);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn locks_that_a_commit_takes_during_the_shutdown_are_released() {
    let (backend, network, first) = or_skip!(on_network().await);
    let second = backend.provider().await;
    let lock = Duration::from_secs(5);
    let (item, token, _) = turn_with(&first, start("i"), lock).await;
    // The commit also locks the turn of this message.
    enqueue(&first, event("i")).await;
    network.slow_down(BATCH, Duration::from_secs(2));
    let shutdown = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        first.shutdown(GRACE).await;
    };
    tokio::join!(ack(&first, &item, &token), shutdown);
    let found = tokio::time::timeout(Duration::from_secs(1), next_turn(&second, lock)).await;
    let (item, ..) = found.expect("the next turn is still locked");
    assert_eq!(item.messages.len(), 1);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_the_runtime_breaks_off_leaves_no_lock_behind() {
    let (backend, network, first) = or_skip!(on_network().await);
    let second = backend.provider().await;
    let (_, token, _) = turn_with(&first, start("i"), LONG).await;
    // The commit locks its activity for this worker.
    let idle = first.clone();
    let worker = tokio::spawn(async move { next_activity(&idle, LONG, None).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    network.answer_late(BATCH, Duration::from_secs(2));
    let committing = first.clone();
    let commit = tokio::spawn(async move {
        let (added, metadata) = (Vec::new(), ExecutionMetadata::default());
        let activities = vec![crate::work_items::activity_of("i", 1, None)];
        let (messages, cancelled) = (Vec::new(), Vec::new());
        let acknowledged = committing
            .ack_orchestration_item(&token, 1, added, activities, messages, metadata, cancelled);
        acknowledged.await
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!commit.is_finished() && !worker.is_finished());
    commit.abort();
    worker.abort();
    first.shutdown(GRACE).await;
    let found = tokio::time::timeout(Duration::from_secs(10), activity(&second, "second")).await;
    assert_eq!(found, Ok(1), "the activity is still locked");
    backend.stop().await;
}

/// Fetches an activity. Returns its attempt.
async fn activity(provider: &CosmosDBProvider, owner: &str) -> u32 {
    let session = SessionFetchConfig {
        owner_id: owner.to_owned(),
        lock_timeout: LONG,
    };
    let (_, _, attempts) = next_activity(provider, LONG, Some(&session)).await;
    attempts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_fetch_leaves_no_lock_behind() {
    let backend = Backend::start().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    let count = 24;
    for number in 0..count {
        enqueue(&second, start(&format!("i-{number}"))).await;
        // Drop it at any point: before its poll, during the lock, after it.
        let moment = Duration::from_micros(500 * number);
        let fetch = first.fetch_orchestration_item(LONG, LONG, None);
        let _dropped = tokio::time::timeout(moment, fetch).await;
    }
    first.shutdown(GRACE).await;
    for _ in 0..count {
        run_turn(&second, LONG).await;
    }
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undelivered_messages_are_delivered_by_another_runtime() {
    let backend = Backend::start().await;
    let emulator = or_skip!(backend.emulator(), "only the emulator fails on demand");
    let (first, second) = (backend.provider().await, backend.provider().await);
    let client = Client::new(Arc::new(second.clone()));
    let running = runtime(&first, &Work::quick()).await;
    emulator.inject(Fault::always(Effect::DropRequest).on(OperationKind::Bulk));
    begin(&client, "parent", "Parent").await;
    let history = async || second.read("parent").await.expect("a history").len();
    eventually(async || history().await >= 2).await;
    running.shutdown(None).await;
    in_time(first.shutdown(Duration::from_millis(500))).await;
    emulator.clear_faults();
    let rest = runtime(&second, &Work::quick()).await;
    ends(&client, "parent").await;
    rest.shutdown(None).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_of_a_process_without_a_network_ends_with_its_grace() {
    const GRACE: Duration = Duration::from_secs(1);
    let (backend, network, provider) = or_skip!(on_network().await);
    let _turn = turn_with(&provider, start("locked"), LONG).await;
    network.swallow(ANY);
    let begun = tokio::time::Instant::now();
    provider.shutdown(GRACE).await;
    let took = begun.elapsed();
    assert!(took >= GRACE && took < GRACE * 2, "{took:?}");
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_was_shut_down_is_not_a_member_and_still_serves_clients() {
    let backend = Backend::start().await;
    let member = |name: &str| MembershipConfig {
        heartbeat: Duration::from_millis(500),
        ..MembershipConfig::named(name)
    };
    let first = backend.provider_with(|config| config.membership = Some(member("first")));
    let second = backend.provider_with(|config| config.membership = Some(member("second")));
    let (first, second) = futures::join!(first, second);
    let seen_by_second = |names: &[&str]| {
        let view = second.members().expect("a member");
        view.state() == MemberState::Member && view.members() == names
    };
    eventually(async || seen_by_second(&["first", "second"])).await;
    first.shutdown(GRACE).await;
    eventually(async || seen_by_second(&["second"])).await;
    let client = Client::new(Arc::new(first));
    begin(&client, "late", "Chain").await;
    let rest = runtime(&second, &Work::quick()).await;
    ends(&client, "late").await;
    rest.shutdown(None).await;
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_runs_and_no_request_is_sent_after_the_last_handle_is_dropped() {
    let backend = Arc::new(Backend::start().await);
    for in_order in [true, false] {
        let backend_of_thread = backend.clone();
        let ended = tokio::task::spawn_blocking(move || tasks_left(&backend_of_thread, in_order));
        assert_eq!(ended.await.expect("no panic"), 0, "tasks live on");
        if let Some(emulator) = backend.emulator() {
            // Requests in flight still get their answers.
            eventually(async || {
                emulator.reset_requests();
                tokio::time::sleep(Duration::from_millis(1500)).await;
                emulator.requests().total() == 0
            })
            .await;
        }
    }
}

/// Counts the tasks that a provider leaves in a Tokio runtime of its own.
fn tasks_left(backend: &Backend, in_order: bool) -> usize {
    let place = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    place.block_on(live_and_end(backend, in_order));
    let mut wait = Wait::begin();
    while place.metrics().num_alive_tasks() > 0 && !wait.is_over() {
        std::thread::sleep(Duration::from_millis(10));
    }
    place.metrics().num_alive_tasks()
}

/// A provider with all its background tasks running when its last handle is dropped.
async fn live_and_end(backend: &Backend, in_order: bool) {
    let provider = backend
        .provider_with(|config| {
            config.membership = Some(MembershipConfig::named("only"));
            config.retention = Some(Duration::from_secs(1));
        })
        .await;
    let client = Client::new(Arc::new(provider.clone()));
    let running = runtime(&provider, &Work::quick()).await;
    for number in 0..10 {
        let name = if number % 2 == 0 { "Chain" } else { "Parent" };
        begin(&client, &format!("{in_order}-{number}"), name).await;
    }
    ends(&client, &format!("{in_order}-0")).await;
    running.shutdown(Some(0)).await;
    if in_order {
        provider.shutdown(GRACE).await;
    }
}

#[test]
fn a_provider_may_be_dropped_inside_outside_and_after_its_tokio_runtime() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build()
    };
    let (place, other) = (runtime().expect("one"), runtime().expect("another"));
    let backend = other.block_on(Backend::start());
    let open = || place.block_on(backend.provider());
    let inside = open();
    place.block_on(async move { drop(inside) });
    drop(open());
    let elsewhere = open();
    other.block_on(async move { drop(elsewhere) });
    let after = open();
    drop(place);
    drop(after);
    other.block_on(backend.stop());
}

#[tokio::test]
async fn a_commit_after_the_shutdown_succeeds_or_is_refused_but_does_not_hang() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    enqueue(&provider, start("late")).await;
    // A fetch without a long poll waits for the deliveries of a commit.
    let turn = provider.fetch_orchestration_item(LONG, Duration::ZERO, None);
    let (_, token, _) = turn.await.expect("fetch").expect("a turn");
    drop(provider.clone());
    let other = start("other");
    let stopping = provider.shutdown(Duration::ZERO);
    stopping.await;
    let committed = provider.ack_orchestration_item(
        &token,
        1,
        vec![],
        vec![],
        vec![other],
        ExecutionMetadata::default(),
        vec![],
    );
    let answer = tokio::time::timeout(GRACE, committed).await;
    let _either = answer.expect("an answer in time");
    backend.stop().await;
}
