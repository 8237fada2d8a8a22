//! Forced deletions of trees that run and grow: nothing is left, and nothing of them starts afterwards.
//! Time is simulated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::providers::ProviderAdmin as _;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::{Instant, sleep};

use crate::harness::end_within;
use crate::network::{Kind, Network};
use crate::retention::partitions;

const SECOND: Duration = Duration::from_secs(1);

/// Longer than the locks of turns, than reservations and than most backoffs.
pub(crate) const LATER: Duration = Duration::from_secs(8);

/// What has run, with its time: turns, also those that are not committed, and activities.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(Instant, String)>>>);

impl Log {
    fn note(&self, what: String) {
        let mut all = self.0.lock().expect("no test has panicked");
        all.push((Instant::now(), what));
    }

    pub(crate) fn since(&self, then: Instant) -> Vec<String> {
        let all = self.0.lock().expect("no test has panicked");
        let since = all.iter().filter(|(at, _)| *at > then);
        since
            .map(|(at, what)| format!("{what} after {:?}", *at - then))
            .collect()
    }
}

/// A store with runtimes, each with a provider of its own.
pub(crate) struct Running {
    backend: Backend,
    pub(crate) provider: CosmosDBProvider,
    pub(crate) client: Client,
    runtimes: Vec<Arc<Runtime>>,
    pub(crate) log: Log,
}

impl Running {
    pub(crate) async fn start(runtimes: usize) -> Self {
        let backend = Backend::start_simulated().await;
        let provider = backend.provider().await;
        let mut running = Self {
            client: Client::new(Arc::new(provider.clone())),
            backend,
            provider,
            runtimes: Vec::new(),
            log: Log::default(),
        };
        for _ in 0..runtimes {
            running.join().await;
        }
        running
    }

    pub(crate) async fn join(&mut self) {
        let provider = Arc::new(self.backend.provider().await);
        let (activities, tree) = (activities(&self.log), orchestrations(&self.log));
        let options = RuntimeOptions::default();
        let runtime = Runtime::start_with_options(provider, activities, tree, options).await;
        self.runtimes.push(runtime);
    }

    pub(crate) async fn begin(&self, instance: &str, orchestration: &str, ms: &str) {
        ok!(self.client.start_orchestration(instance, orchestration, ms));
    }

    pub(crate) async fn cancel(&self, instance: &str) {
        ok!(self.client.cancel_instance(instance, "enough"));
    }

    pub(crate) async fn fails(&self, instance: &str) {
        let ended = ok!(end_within(&self.client, instance, SECOND * 60));
        let has_failed = matches!(ended, OrchestrationStatus::Failed { .. });
        assert!(has_failed, "`{instance}`: {ended:?}");
    }

    pub(crate) async fn is_running(&self, instance: &str) -> bool {
        let status = self.client.get_orchestration_status(instance).await;
        matches!(status, Ok(OrchestrationStatus::Running { .. }))
    }

    /// Deletes an instance by force. Returns what is left of all instances, then and later, and what
    /// has started afterwards.
    async fn delete(&self, instance: &str) -> Vec<String> {
        ok!(self.provider.delete_instance(instance, true));
        self.after_deletion().await
    }

    /// Returns what is left of all instances, now and later, and what starts from now on.
    async fn after_deletion(&self) -> Vec<String> {
        let deleted = Instant::now();
        let mut wrong = self.left("then").await;
        sleep(LATER).await;
        wrong.extend(self.left("later").await);
        wrong.extend(self.log.since(deleted).into_iter().take(5));
        wrong
    }

    pub(crate) async fn left(&self, when: &str) -> Vec<String> {
        let left = partitions(&self.provider).await.into_iter();
        left.map(|id| format!("{id} is left {when}")).collect()
    }

    pub(crate) async fn stop(self) {
        for runtime in self.runtimes {
            runtime.shutdown(None).await;
        }
        self.backend.stop().await;
    }
}

/// `Tick` takes as many milliseconds as the number behind the colon.
fn activities(log: &Log) -> ActivityRegistry {
    let log = log.clone();
    ActivityRegistry::builder()
        .register("Tick", move |_: ActivityContext, input: String| {
            log.note(format!("activity {input}"));
            async move {
                let (_, ms) = input.rsplit_once(':').expect("a duration");
                sleep(Duration::from_millis(ms.parse().expect("a number"))).await;
                Ok(input)
            }
        })
        .build()
}

/// Ticks once for this instance.
async fn tick(ctx: &OrchestrationContext, ms: &str) -> Result<String, String> {
    let input = format!("{}:{ms}", ctx.instance_id());
    ctx.schedule_activity("Tick", input).await
}

/// `Ticker` ticks endlessly, and `Leaf` once. `Spawner` has a new `Leaf` in each execution. `Boss`
/// waits for tickers and a spawner.
fn orchestrations(log: &Log) -> OrchestrationRegistry {
    let noted = || {
        let log = log.clone();
        move |ctx: &OrchestrationContext| log.note(format!("turn of {}", ctx.instance_id()))
    };
    let (ticker, leaf, spawner, boss) = (noted(), noted(), noted(), noted());
    OrchestrationRegistry::builder()
        .register("Ticker", move |ctx: OrchestrationContext, ms: String| {
            ticker(&ctx);
            async move {
                tick(&ctx, &ms).await?;
                ctx.continue_as_new(ms).await
            }
        })
        .register("Leaf", move |ctx: OrchestrationContext, ms: String| {
            leaf(&ctx);
            async move { tick(&ctx, &ms).await }
        })
        .register("Spawner", move |ctx: OrchestrationContext, ms: String| {
            spawner(&ctx);
            async move {
                ctx.schedule_sub_orchestration("Leaf", ms.clone()).await?;
                ctx.continue_as_new(ms).await
            }
        })
        .register("Boss", move |ctx: OrchestrationContext, ms: String| {
            boss(&ctx);
            async move {
                let named = format!("{}/k#1", ctx.instance_id());
                let own = ctx.schedule_sub_orchestration("Ticker", ms.clone());
                let named = ctx.schedule_sub_orchestration_with_id("Ticker", named, ms.clone());
                let spawner = ctx.schedule_sub_orchestration("Spawner", ms);
                ctx.join(vec![own, named, spawner]).await;
                Ok(String::new())
            }
        })
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_leaves_no_child_of_a_growing_tree() {
    let mut failures = Vec::new();
    // Moments at which children were left without the fence, or without the withdrawal of starts.
    for step in [10, 15, 20, 35] {
        let running = Running::start(1).await;
        running.begin("root", "Spawner", "100").await;
        sleep(Duration::from_millis(500 + 7 * step)).await;
        let wrong = running.delete("root").await;
        if !wrong.is_empty() {
            failures.push(format!("{step}: {wrong:?}"));
        }
        running.stop().await;
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_of_a_tree_on_two_runtimes_leaves_nothing_and_nothing_runs() {
    let mut failures = Vec::new();
    let running = Running::start(2).await;
    for step in [0, 1, 5] {
        running.begin("root", "Boss", "300").await;
        sleep(Duration::from_millis(47 * step % 397 + 2000 * (step % 3))).await;
        let wrong = running.delete("root").await;
        if !wrong.is_empty() {
            failures.push(format!("{step}: {wrong:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_starts_no_activity() {
    let mut failures = Vec::new();
    // Without the wait, an activity starts after the deletion at one of these moments in most runs.
    for step in [13, 45] {
        let running = Running::start(2).await;
        // More than there are workers.
        let ids: Vec<_> = (0..5).map(|number| format!("i{number}")).collect();
        for id in &ids {
            running.begin(id, "Ticker", "100").await;
        }
        sleep(Duration::from_millis(500 + 7 * step)).await;
        for id in &ids[..3] {
            ok!(running.provider.delete_instance(id, true));
            let deleted = Instant::now();
            sleep(SECOND).await;
            let mut started = running.log.since(deleted);
            started.retain(|line| line.contains(id));
            failures.extend(started.into_iter().map(|line| format!("{step}: {line}")));
        }
        running.stop().await;
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_continues_after_an_interrupted_forced_deletion() {
    let running = Running::start(1).await;
    let emulator = or_skip!(running.backend.emulator(), "needs the emulator");
    running.begin("root", "Spawner", "9000").await;
    sleep(SECOND).await;
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Batch));
    let failed = running.provider.delete_instance("root", true).await;
    let failed = failed.expect_err("the service refuses the deletion");
    assert!(failed.is_retryable(), "{failed}");
    emulator.clear_faults();
    // Longer than the lock of the deletion.
    sleep(SECOND * 70).await;
    let then = Instant::now();
    sleep(SECOND * 10).await;
    let ran = running.log.since(then);
    assert!(
        ran.iter().any(|line| line.starts_with("activity")),
        "{ran:?}"
    );
    assert_eq!(running.delete("root").await, Vec::<String>::new());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_by_slow_requests_ends_and_leaves_nothing() {
    let mut running = Running::start(1).await;
    let network = Network::default();
    let Some(operator) = network.provider(&running.backend).await else {
        return running.stop().await;
    };
    running.provider = operator;
    running.begin("root", "Spawner", "3000").await;
    sleep(SECOND).await;
    // Several requests take as long as the locks of the deletion.
    network.slow_down(crate::network::ANY, SECOND * 9);
    let repaired = async {
        sleep(SECOND * 130).await;
        network.repair();
    };
    let deleted = running.provider.delete_instance("root", true);
    let (deleted, ()) = tokio::join!(deleted, repaired);
    deleted.expect("it is deleted");
    assert_eq!(running.left("then").await, Vec::<String>::new());
    running.stop().await;
}

/// A request about the instance `root`.
const OF_ROOT: Kind = |request| {
    let key = request.headers.get("x-ms-documentdb-partitionkey");
    key.is_some_and(|key| key == "[\"root\"]")
};

/// The operator stands still after some of its requests about the root, for longer than its locks.
/// After the first ones the root is fenced.
#[tokio::test(start_paused = true)]
async fn a_forced_deletion_that_stands_still_leaves_nothing() {
    let mut stood_still = 0;
    for requests in [4, 5, 7] {
        let running = Running::start(1).await;
        let network = Network::default();
        let Some(operator) = network.provider(&running.backend).await else {
            return running.stop().await;
        };
        running.begin("root", "Spawner", "3000").await;
        sleep(SECOND).await;
        network.freeze_after(requests, OF_ROOT, SECOND * 70);
        let deleted = network.process(operator.delete_instance("root", true));
        let deleted = deleted.await;
        stood_still += usize::from(network.has_stalled());
        network.repair();
        let wrong = match deleted {
            Ok(_) => running.after_deletion().await,
            // The operator repeats it.
            Err(_) => running.delete("root").await,
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(wrong, none, "stood still after {requests} requests");
        running.stop().await;
    }
    assert!(stood_still > 1, "{stood_still}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_has_not_begun_is_deleted_by_force_with_its_events() {
    let mut running = Running::start(0).await;
    running.begin("i", "Ticker", "300").await;
    ok!(running.client.enqueue_event("i", "Orders", "1"));
    let deleted = running.provider.delete_instance("i", true).await;
    assert_eq!(deleted.expect("it is deleted").queue_messages_deleted, 2);
    assert_eq!(running.left("then").await, Vec::<String>::new());
    running.join().await;
    sleep(LATER).await;
    assert_eq!(
        running.log.since(Instant::now() - LATER),
        Vec::<String>::new()
    );
    let again = running.provider.delete_instance("i", true).await;
    let again = again.expect_err("it is gone").message;
    assert!(again.contains("not found"), "{again}");
    running.begin("i", "Ticker", "300").await;
    sleep(LATER).await;
    assert!(running.is_running("i").await);
    running.stop().await;
}
