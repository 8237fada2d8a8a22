//! Paused instances: nothing of them starts, and nothing is lost. Time is simulated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_emulator::OperationKind;
use cdb_model::Document as _;
use cdb_provider::documents::{Instance, InstanceKey};
use cdb_provider::{CosmosDBProvider, TreeScope};
use cdb_tests::Backend;
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, Either2, Event, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use tokio::time::sleep;

use crate::forced_deletions::{LATER, Running as Trees};
use crate::harness::{end_of, eventually, next_activity, next_turn};
use crate::several::{ack, enqueue, event, start, turn_with};
use crate::work_items::{activity_of, child_of, child_scheduled, metadata_of, start_of, started};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than every lock, every backoff and the activity.
const LONG: Duration = Duration::from_secs(150);

fn lock_time() -> Duration {
    RuntimeOptions::default().worker_lock_timeout
}

/// The activities that have started, by input.
type Started = Arc<Mutex<Vec<String>>>;

/// A store with one runtime.
struct Running {
    backend: Backend,
    provider: CosmosDBProvider,
    client: Client,
    runtime: Arc<Runtime>,
    started: Started,
}

impl Running {
    async fn start() -> Option<Self> {
        let backend = Backend::start_in_simulated_time(|_| {}).await?;
        let provider = backend.provider().await;
        let shared = Arc::new(provider.clone());
        let started = Started::default();
        let runtime = Runtime::start_with_options(
            shared.clone(),
            activities(&started),
            orchestrations(),
            RuntimeOptions::default(),
        )
        .await;
        Some(Self {
            client: Client::new(shared),
            backend,
            provider,
            runtime,
            started,
        })
    }

    async fn begin(&self, orchestration: &str) {
        self.begin_with(orchestration, "100").await;
    }

    async fn begin_with(&self, orchestration: &str, input: &str) {
        let begun = self
            .client
            .start_orchestration("main", orchestration, input);
        begun.await.expect("it is started");
    }

    async fn raise(&self, instance: &str) {
        ok!(self.client.raise_event(instance, "go", ""));
    }

    async fn pause(&self, extent: TreeScope) -> Vec<String> {
        let paused = self.provider.pause("main", extent, "ada").await;
        paused.expect("it is paused")
    }

    async fn resume(&self, extent: TreeScope) -> Vec<String> {
        let resumed = self.provider.resume("main", extent).await;
        resumed.expect("it is resumed")
    }

    fn started(&self) -> Vec<String> {
        self.started.lock().expect("no test has panicked").clone()
    }

    async fn output(&self) -> String {
        match end_of(&self.client, "main").await {
            OrchestrationStatus::Completed { output, .. } => output,
            other => panic!("it has not completed: {other:?}"),
        }
    }

    async fn stop(self) {
        self.runtime.shutdown(None).await;
        self.backend.stop().await;
    }
}

/// Activities that take as many seconds as their input says.
fn activities(started: &Started) -> ActivityRegistry {
    let started = started.clone();
    ActivityRegistry::builder()
        .register("Step", move |_: ActivityContext, seconds: String| {
            let mut started = started.lock().expect("no test has panicked");
            started.push(seconds.clone());
            async move {
                sleep(SECOND * seconds.parse().expect("a number")).await;
                Ok(seconds)
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Steps",
            async |ctx: OrchestrationContext, seconds: String| {
                ctx.schedule_wait("go").await;
                let first = ctx.schedule_activity("Step", seconds).await?;
                let second = ctx.schedule_activity("Step", "1").await?;
                Ok(format!("{first} {second}"))
            },
        )
        .register("Race", |ctx: OrchestrationContext, _: String| async move {
            let timer = ctx.schedule_timer(SECOND * 60);
            match ctx.select2(timer, ctx.schedule_wait("go")).await {
                Either2::First(()) => Ok("timer".to_owned()),
                Either2::Second(_) => Ok("event".to_owned()),
            }
        })
        .register("Above", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_sub_orchestration_with_id("Steps", "below", "100")
                .await
        })
        .build()
}

async fn stored(provider: &CosmosDBProvider, instance: &str) -> Instance {
    let read = provider.container().read(&InstanceKey::new(instance)).await;
    read.expect("a read").expect("it exists").document
}

#[tokio::test(start_paused = true)]
async fn a_paused_instance_starts_nothing_and_costs_no_writes() {
    let on = or_skip!(Running::start().await);
    on.begin("Steps").await;
    sleep(SECOND).await;
    assert_eq!(on.pause(TreeScope::Alone).await, ["main"]);
    let paused = stored(&on.provider, "main").await.paused;
    assert_eq!(paused.map(|paused| paused.by).as_deref(), Some("ada"));
    on.raise("main").await;
    sleep(SECOND * 10).await;
    if let Some(emulator) = on.backend.emulator() {
        emulator.reset_requests();
        sleep(LONG).await;
        let counts = emulator.requests().counts;
        let written = [
            OperationKind::Batch,
            OperationKind::Patch,
            OperationKind::Replace,
        ];
        assert!(
            written.iter().all(|kind| !counts.contains_key(kind)),
            "{counts:?}"
        );
    }
    assert!(on.started().is_empty());
    assert_eq!(
        on.pause(TreeScope::Alone).await,
        [""; 0],
        "it was paused before"
    );
    assert_eq!(on.resume(TreeScope::Alone).await, ["main"]);
    assert_eq!(
        on.resume(TreeScope::Alone).await,
        [""; 0],
        "it was resumed before"
    );
    assert_eq!(on.output().await, "100 1");
    on.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_activity_ends_once_and_the_next_one_waits() {
    // Before its lock is renewed, and after several renewals.
    for seconds in ["5", "100"] {
        let on = or_skip!(Running::start().await);
        on.begin_with("Steps", seconds).await;
        sleep(SECOND).await;
        on.raise("main").await;
        eventually(async || !on.started().is_empty()).await;
        on.pause(TreeScope::Alone).await;
        sleep(LONG).await;
        assert_eq!(on.started(), [seconds]);
        on.resume(TreeScope::Alone).await;
        assert_eq!(on.output().await, format!("{seconds} 1"));
        assert_eq!(on.started(), [seconds, "1"]);
        on.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_first_during_the_pause_is_first_after_it() {
    for (raised_after, first) in [(30, "event"), (90, "timer")] {
        let on = or_skip!(Running::start().await);
        on.begin("Race").await;
        sleep(SECOND).await;
        on.pause(TreeScope::Alone).await;
        sleep(SECOND * raised_after).await;
        on.raise("main").await;
        sleep(LONG).await;
        on.resume(TreeScope::Alone).await;
        assert_eq!(on.output().await, first);
        on.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn sub_orchestrations_are_paused_on_request_only() {
    let on = or_skip!(Running::start().await);
    on.begin("Above").await;
    eventually(async || {
        on.client
            .get_orchestration_status("below")
            .await
            .is_ok_and(|status| !matches!(status, OrchestrationStatus::NotFound))
    })
    .await;
    assert_eq!(on.pause(TreeScope::Alone).await, ["main"]);
    on.raise("below").await;
    eventually(async || !on.started().is_empty()).await;
    assert_eq!(on.pause(TreeScope::Tree).await, ["below"]);
    sleep(LONG).await;
    assert_eq!(on.started(), ["100"]);
    assert_eq!(on.resume(TreeScope::Tree).await, ["below", "main"]);
    assert_eq!(on.output().await, "100 1");
    on.stop().await;
}

/// Returns whether a provider finds a turn within a time.
async fn finds_turn(provider: &CosmosDBProvider, time: Duration) -> bool {
    let lock = RuntimeOptions::default().orchestrator_lock_timeout;
    crate::harness::finds_turn(provider, lock, time).await
}

/// Returns whether a provider finds an activity within a time.
async fn finds_activity(provider: &CosmosDBProvider, time: Duration) -> bool {
    crate::harness::finds_activity(provider, lock_time(), time).await
}

/// Lets the instance `main` schedule its child `below`, which has not begun.
pub(crate) async fn schedule_child(provider: &CosmosDBProvider) {
    let (item, token, _) = turn_with(provider, start_of("main", "Above"), lock_time()).await;
    let scheduled = child_scheduled("Steps", "below");
    let event = |id, kind| Event::with_event_id(id, item.instance.clone(), 1, None, kind);
    let events = vec![event(1, started("Above", "")), event(2, scheduled)];
    let child = child_of("main", start_of("below", "Steps"));
    let metadata = metadata_of("Above");
    let committed =
        provider.ack_orchestration_item(&token, 1, events, vec![], vec![child], metadata, vec![]);
    committed.await.expect("the turn is committed");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_has_not_started_yet_is_paused_with_its_tree() {
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let (provider, other) = (backend.provider().await, backend.provider().await);
    schedule_child(&provider).await;
    let paused = provider.pause("main", TreeScope::Tree, "ada").await;
    assert_eq!(paused.expect("paused"), ["main", "below"]);
    assert!(!finds_turn(&other, LONG).await);
    let resumed = provider.resume("main", TreeScope::Tree).await;
    assert_eq!(resumed.expect("resumed"), ["below", "main"]);
    let (item, ..) = next_turn(&other, lock_time()).await;
    assert_eq!(item.instance, "below");
    backend.stop().await;
}

/// A committed instance, which the next messages reach.
async fn committed(provider: &CosmosDBProvider, instance: &str) {
    let (item, token, _) = turn_with(provider, start(instance), lock_time()).await;
    ack(provider, &item, &token).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_whose_worker_dies_during_the_pause_runs_again_after_it() {
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let (provider, other) = (backend.provider().await, backend.provider().await);
    committed(&provider, "main").await;
    ok!(provider.enqueue_for_worker(activity_of("main", 2, None)));
    let (_, _, attempt) = next_activity(&provider, lock_time(), None).await;
    assert_eq!(attempt, 1);
    ok!(other.pause("main", TreeScope::Alone, "ada"));
    drop(provider);
    assert!(!finds_activity(&other, LONG).await);
    ok!(other.resume("main", TreeScope::Alone));
    let (_, _, attempt) = next_activity(&other, lock_time(), None).await;
    assert_eq!(attempt, 2);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn others_do_not_wait_behind_paused_instances() {
    const PAUSED: u64 = 120;
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let (provider, other) = (backend.provider().await, backend.provider().await);
    for number in 0..PAUSED {
        let instance = format!("paused-{number}");
        committed(&provider, &instance).await;
        ok!(provider.enqueue_for_worker(activity_of(&instance, 2, None)));
        ok!(other.pause(&instance, TreeScope::Alone, "ada"));
        enqueue(&other, event(&instance)).await;
    }
    assert!(!finds_turn(&other, LONG).await);
    committed(&other, "free").await;
    ok!(other.enqueue_for_worker(activity_of("free", 2, None)));
    enqueue(&other, event("free")).await;
    let late = backend.provider().await;
    assert!(finds_turn(&late, SECOND * 2).await);
    assert!(finds_activity(&late, SECOND * 2).await);
    for number in 0..PAUSED {
        let resumed = other
            .resume(&format!("paused-{number}"), TreeScope::Alone)
            .await;
        resumed.expect("it is resumed");
    }
    for _ in 0..PAUSED {
        assert!(finds_turn(&late, SECOND * 10).await);
        assert!(finds_activity(&late, SECOND * 10).await);
    }
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_running_instances_are_paused() {
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let provider = backend.provider().await;
    let unknown = provider.pause("nobody", TreeScope::Alone, "ada").await;
    assert!(unknown.is_err_and(|error| error.message.contains("not found")));
    let ended = Instance {
        orchestration_name: "Old".to_owned(),
        status: cdb_provider::documents::Status::Completed,
        ..Instance::pending("ended", provider.container().now())
    };
    ok!(provider.container().run(ended.create()));
    let refused = provider.pause("ended", TreeScope::Alone, "ada").await;
    let refused = refused.expect_err("it has ended");
    assert!(
        refused.message.contains("has ended: Completed"),
        "{refused}"
    );
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_has_not_begun_is_paused_and_resumed() {
    for extent in [TreeScope::Alone, TreeScope::Tree] {
        let mut running = Trees::start(0).await;
        running.begin("i", "Ticker", "300").await;
        let paused = running.provider.pause("i", extent, "ada").await;
        assert_eq!(paused.expect("it is paused"), ["i"]);
        let paused = running.provider.pause("i", extent, "ada").await;
        assert_eq!(paused.expect("it is paused"), Vec::<String>::new());
        running.join().await;
        let joined = tokio::time::Instant::now();
        sleep(LATER * 2).await;
        assert_eq!(running.log.since(joined), Vec::<String>::new());
        let resumed = running.provider.resume("i", extent).await;
        assert_eq!(resumed.expect("it is resumed"), ["i"]);
        sleep(LATER).await;
        assert!(running.is_running("i").await);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_activity_starts_no_turn_of_a_paused_instance() {
    let running = Trees::start(1).await;
    running.begin("i", "Ticker", "5000").await;
    sleep(SECOND * 7).await;
    ok!(running.provider.pause("i", TreeScope::Tree, "ada"));
    let paused = tokio::time::Instant::now();
    sleep(LATER * 2).await;
    assert_eq!(running.log.since(paused), Vec::<String>::new());
    ok!(running.provider.resume("i", TreeScope::Tree));
    sleep(LATER).await;
    assert!(running.log.since(paused).len() > 2);
    running.stop().await;
}
