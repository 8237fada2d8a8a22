//! A physical partition that throttles its writes delays instances elsewhere by at most two seconds,
//! however many of its own are due, and its own go on. Time is simulated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_provider::HandOver;
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, EventKind, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use tokio::time::{Instant, sleep};

use crate::harness::end_within;
use crate::network::{BATCH, Network};
use crate::partitions::{SICK, instances};

const PARTITIONS: u32 = 4;

/// The instances of the sick partition: more than the dispatchers.
const SICK_INSTANCES: usize = 12;

/// The longest time until an instance elsewhere has its first turn.
const ELSEWHERE: Duration = Duration::from_secs(2);

/// The time in which the instances of the sick partition complete after it answers again: the lock of an
/// activity that could not be released, and a search.
const RECOVERY: Duration = Duration::from_secs(35);

/// What the orchestrations and activities of a test do.
#[derive(Clone, Default)]
struct Seen {
    /// The first turn of each instance.
    begun: Arc<Mutex<BTreeMap<String, Instant>>>,
    /// How often each activity has run.
    ran: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Seen {
    fn begun(&self, instance: &str) -> Option<Instant> {
        self.begun
            .lock()
            .expect("no test has panicked")
            .get(instance)
            .copied()
    }

    fn orchestrations(&self) -> OrchestrationRegistry {
        let begun = self.begun.clone();
        let steps = async |ctx: OrchestrationContext, _: String| {
            let mut results = String::new();
            for step in ["a", "b"] {
                results += &ctx.schedule_activity("Step", step).await?;
            }
            Ok(results)
        };
        let once = move |ctx: OrchestrationContext, _: String| {
            let mut begun = begun.lock().expect("no test has panicked");
            begun.entry(ctx.instance_id()).or_insert_with(Instant::now);
            async { Ok(String::new()) }
        };
        let slow = async |ctx: OrchestrationContext, _: String| {
            let mut results = String::new();
            for step in ["a", "b"] {
                results += &ctx.schedule_activity("SlowStep", step).await?;
            }
            Ok(results)
        };
        let marked =
            async |ctx: OrchestrationContext, _: String| ctx.schedule_activity("Mark", "").await;
        let registry = OrchestrationRegistry::builder();
        registry
            .register("Steps", steps)
            .register("Once", once)
            .register("SlowSteps", slow)
            .register("Marked", marked)
            .build()
    }

    fn activities(&self) -> ActivityRegistry {
        let ran = self.ran.clone();
        let step = move |ctx: ActivityContext, step: String| {
            let key = format!("{} {step}", ctx.instance_id());
            *ran.lock()
                .expect("no test has panicked")
                .entry(key)
                .or_insert(0) += 1;
            async { Ok(step) }
        };
        let slow_ran = self.ran.clone();
        let slow_step = move |ctx: ActivityContext, step: String| {
            let key = format!("{} {step}", ctx.instance_id());
            *slow_ran
                .lock()
                .expect("no test has panicked")
                .entry(key)
                .or_insert(0) += 1;
            async {
                sleep(Duration::from_secs(1)).await;
                Ok(step)
            }
        };
        let begun = self.begun.clone();
        let mark = move |ctx: ActivityContext, _: String| {
            let mut begun = begun.lock().expect("no test has panicked");
            let instance = ctx.instance_id().to_owned();
            begun.entry(instance).or_insert_with(Instant::now);
            async { Ok(String::new()) }
        };
        ActivityRegistry::builder()
            .register("Step", step)
            .register("SlowStep", slow_step)
            .register("Mark", mark)
            .build()
    }
}

/// A runtime with default settings, and a client in another process.
struct Site {
    backend: Backend,
    client: Client,
    runtime: Arc<Runtime>,
    seen: Seen,
    /// That of the runtime.
    network: Network,
    /// The instances, each with its physical partition.
    all: Vec<(String, String)>,
    sick: Vec<String>,
    sound: Vec<String>,
}

impl Site {
    /// `None` on an account.
    async fn open() -> Option<Self> {
        Self::open_with(HandOver::default()).await
    }

    async fn open_with(hand_over: HandOver) -> Option<Self> {
        let backend = Backend::start_simulated_on(PARTITIONS).await?;
        let provider = backend.provider().await;
        let network = Network::default();
        let runtime = network.provider_with(&backend, |config| config.hand_over = hand_over);
        let runtime = runtime.await?;
        let all = instances(&provider, 120).await;
        let (sick, sound): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|(_, at)| at == SICK);
        let names = |of: Vec<(String, String)>| of.into_iter().map(|(name, _)| name).collect();
        let seen = Seen::default();
        let runtime = Runtime::start_with_options(
            Arc::new(runtime),
            seen.activities(),
            seen.orchestrations(),
            RuntimeOptions::default(),
        );
        Some(Self {
            client: Client::new(Arc::new(provider)),
            runtime: runtime.await,
            backend,
            seen,
            network,
            all,
            sick: names(sick),
            sound: names(sound),
        })
    }

    fn emulator(&self) -> &Emulator {
        self.backend.emulator().expect("not on an account")
    }

    async fn start(&self, instance: &str, orchestration: &str) {
        ok!(self.client.start_orchestration(instance, orchestration, ""));
    }

    /// The sick partition throttles this share of these requests.
    fn throttle(&self, kinds: &[OperationKind], share: f64, retry_after: Duration) {
        let fault = Fault::with_probability(Effect::throttled(retry_after), share);
        let fault = kinds.iter().fold(fault, |fault, kind| fault.on(*kind));
        self.emulator().inject(fault.on_partition(SICK));
    }

    /// Starts an instance elsewhere every half second. Returns the longest time until one begins: its
    /// first turn, or its activity.
    async fn elsewhere(&self, orchestration: &str, count: usize) -> Duration {
        let mut started = Vec::new();
        for instance in &self.sound[..count] {
            started.push((instance, Instant::now()));
            self.start(instance, orchestration).await;
            sleep(Duration::from_millis(500)).await;
        }
        sleep(ELSEWHERE).await;
        let took = started.into_iter().map(|(instance, at)| {
            let begun = self.seen.begun(instance);
            begun.map_or(Duration::MAX, |begun| begun - at)
        });
        took.max().unwrap_or_default()
    }

    async fn completed(&self, instances: &[String]) -> usize {
        let mut completed = 0;
        for instance in instances {
            let status = self.client.get_orchestration_status(instance).await;
            completed += usize::from(matches!(
                status.expect("it is read"),
                OrchestrationStatus::Completed { .. }
            ));
        }
        completed
    }

    /// Ends the faults. These instances of the sick partition then complete, and the result of each
    /// activity counts once.
    async fn recover(self, instances: &[String]) {
        self.emulator().clear_faults();
        let answers = Instant::now();
        for instance in instances {
            let ended = end_within(&self.client, instance, RECOVERY).await;
            let is_right = |output: &str| output == "ab";
            assert!(
                matches!(&ended, Ok(OrchestrationStatus::Completed { output, .. }) if is_right(output)),
                "{instance}: {ended:?}"
            );
            let history = ok!(self.client.read_execution_history(instance, 1));
            let results = history.iter().map(|event| &event.kind);
            let results =
                results.filter(|kind| matches!(kind, EventKind::ActivityCompleted { .. }));
            assert_eq!(results.count(), 2, "{instance}: {history:?}");
        }
        let took = answers.elapsed();
        println!("all have completed after {took:?}");
        assert!(took < RECOVERY, "{took:?}");
        self.runtime.shutdown(None).await;
        self.backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn throttled_commits_of_a_partition_hold_no_dispatchers() {
    let site = or_skip!(Site::open().await);
    let sick = site.sick[..SICK_INSTANCES].to_vec();
    site.throttle(&[OperationKind::Batch], 1.0, Duration::from_millis(100));
    for instance in &sick {
        site.start(instance, "Steps").await;
    }
    let took = site.elsewhere("Once", 6).await;
    println!("elsewhere after {took:?}");
    assert!(took <= ELSEWHERE, "{took:?}");
    assert_eq!(site.completed(&sick).await, 0);
    site.recover(&sick).await;
}

#[tokio::test(start_paused = true)]
async fn throttled_ends_of_activities_of_a_partition_hold_no_workers() {
    let site = or_skip!(Site::open().await);
    let workers = RuntimeOptions::default().worker_concurrency;
    let sick = site.sick[..workers].to_vec();
    for instance in &sick {
        site.start(instance, "SlowSteps").await;
    }
    // All workers run activities of the sick partition.
    sleep(Duration::from_millis(500)).await;
    site.throttle(&[OperationKind::Batch], 1.0, Duration::from_millis(100));
    let took = site.elsewhere("Marked", 6).await;
    println!("elsewhere after {took:?}");
    assert!(took <= ELSEWHERE, "{took:?}");
    assert_eq!(site.completed(&sick).await, 0);
    site.recover(&sick).await;
}

/// Turns have taken the ends of the activities, and their commits get no answer for long.
#[tokio::test(start_paused = true)]
async fn commits_without_an_answer_hold_no_workers() {
    const LONG: Duration = Duration::from_secs(8);
    let site = or_skip!(Site::open().await);
    let workers = RuntimeOptions::default().worker_concurrency;
    let sick = site.sick[..workers].to_vec();
    for instance in &sick {
        site.start(instance, "SlowSteps").await;
    }
    sleep(Duration::from_millis(500)).await;
    site.network.slow_partition(SICK, &site.all, BATCH, LONG);
    // The activities end meanwhile, and their turns are committed.
    sleep(ELSEWHERE).await;
    let took = site.elsewhere("Marked", 6).await;
    println!("elsewhere after {took:?}");
    assert!(took <= ELSEWHERE, "{took:?}");
    site.network.repair();
    site.recover(&sick).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_whose_end_fails_without_its_worker_runs_again() {
    // A commit that fails leaves the end of the activity to its worker.
    let site = or_skip!(Site::open_with(HandOver::Never).await);
    let sick = site.sick[..1].to_vec();
    site.start(&sick[0], "SlowSteps").await;
    sleep(Duration::from_millis(500)).await;
    site.throttle(&[OperationKind::Batch], 1.0, Duration::from_millis(100));
    sleep(ELSEWHERE * 2).await;
    // A refusal that no retry changes.
    let emulator = site.emulator();
    emulator.clear_faults();
    let refused = Fault::always(Effect::error(400, 0)).times(1);
    emulator.inject(refused.on(OperationKind::Batch).on_partition(SICK));
    sleep(ELSEWHERE).await;
    let seen = site.seen.clone();
    site.recover(&sick).await;
    let ran = seen.ran.lock().expect("no test has panicked").clone();
    assert_eq!(ran.get(&format!("{} a", sick[0])), Some(&2), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn at_most_sixteen_commits_go_on_without_their_dispatchers() {
    let site = or_skip!(Site::open().await);
    let sick = &site.sick[..24];
    site.throttle(&[OperationKind::Batch], 1.0, Duration::from_millis(100));
    for instance in sick {
        site.start(instance, "Once").await;
    }
    sleep(Duration::from_secs(16)).await;
    let begun = sick.iter().filter_map(|instance| site.seen.begun(instance));
    let begun = begun.count();
    let dispatchers = RuntimeOptions::default().orchestration_concurrency;
    assert!((16..=16 + dispatchers).contains(&begun), "{begun}");
    site.emulator().clear_faults();
    for instance in sick {
        let ended = end_within(&site.client, instance, RECOVERY).await;
        assert!(
            matches!(ended, Ok(OrchestrationStatus::Completed { .. })),
            "{instance}: {ended:?}"
        );
    }
    site.runtime.shutdown(None).await;
    site.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_without_its_dispatcher_is_repeated_as_a_turn() {
    let site = or_skip!(Site::open().await);
    let sick = site.sick[..1].to_vec();
    site.throttle(&[OperationKind::Batch], 1.0, Duration::from_millis(100));
    for instance in &sick {
        site.start(instance, "Steps").await;
    }
    sleep(ELSEWHERE).await;
    // A refusal that no retry changes. The runtime would fail the instance if it got the error.
    let emulator = site.emulator();
    emulator.clear_faults();
    let refused = Fault::always(Effect::error(400, 0)).times(1);
    emulator.inject(refused.on(OperationKind::Batch).on_partition(SICK));
    sleep(ELSEWHERE).await;
    site.recover(&sick).await;
}

/// All kinds but creations, which start instances.
const WRITES: [OperationKind; 6] = [
    OperationKind::Replace,
    OperationKind::Upsert,
    OperationKind::Patch,
    OperationKind::Delete,
    OperationKind::Batch,
    OperationKind::Bulk,
];

/// Starts instances elsewhere while the sick partition throttles this share of writes.
async fn throttled_writes(share: f64, retry_after: Duration) {
    let site = or_skip!(Site::open().await);
    let sick = site.sick[..SICK_INSTANCES].to_vec();
    site.throttle(&WRITES, share, retry_after);
    for instance in &sick {
        site.start(instance, "Steps").await;
    }
    let took = site.elsewhere("Once", 6).await;
    sleep(Duration::from_secs(3)).await;
    let ran = site.seen.ran.lock().expect("no test has panicked").len();
    println!("{share} after {retry_after:?}: elsewhere after {took:?}, {ran} activities ran");
    assert!(took <= ELSEWHERE, "{took:?}");
    assert!(share >= 1.0 || ran > 0, "the sick partition goes on");
    site.recover(&sick).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_throttles_all_writes_delays_only_its_own_instances() {
    throttled_writes(1.0, Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_throttles_nine_of_ten_writes_delays_only_its_own_instances() {
    throttled_writes(0.9, Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_throttles_four_of_five_writes_delays_only_its_own_instances() {
    throttled_writes(0.8, Duration::from_millis(200)).await;
}

#[tokio::test(start_paused = true)]
async fn throttled_writes_that_wait_for_a_second_delay_only_their_own_instances() {
    throttled_writes(0.8, Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_throttles_half_of_the_writes_delays_only_its_own_instances() {
    throttled_writes(0.5, Duration::from_millis(50)).await;
}
