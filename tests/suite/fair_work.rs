//! Limits of activities: how many run and start in all runtimes, in which order, and what waits
//! behind them. Time is simulated, and locks have their default durations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_model::Query;
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{Priority, Rule, WorkerItem};
use cdb_tests::Backend;
use duroxide::OrchestrationContext;
use duroxide::OrchestrationRegistry;
use duroxide::providers::{Provider, TagFilter, WorkItem};
use duroxide::runtime::RuntimeOptions;
use futures::future::join_all;
use tokio::time::Instant;

use crate::fair_turns::by_tenant;
use crate::harness::{TestEnv, no_activities, until_some};
use crate::work_items::activity_of;

/// Within this time, every runtime knows a new limit.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);

pub(crate) const POLL: Duration = Duration::from_secs(30);

pub(crate) fn lock_time() -> Duration {
    RuntimeOptions::default().worker_lock_timeout
}

pub(crate) fn rule(select: &str) -> Rule {
    Rule::new(select.parse().expect("it is valid"))
}

pub(crate) async fn set(provider: &CosmosDBProvider, rule: Rule) {
    ok!(provider.set_limit(rule, "ada"));
}

pub(crate) fn tagged(number: u64, tag: &str) -> WorkItem {
    let mut item = activity_of(&format!("i-{number}"), number, None);
    if let WorkItem::ActivityExecute { tag: own, .. } = &mut item {
        *own = Some(tag.to_owned());
    }
    item
}

/// An activity that queries find before the limits, whose partition comes later.
fn early(tag: &str) -> WorkItem {
    let mut item = tagged(1, tag);
    if let WorkItem::ActivityExecute { instance, .. } = &mut item {
        "a-1".clone_into(instance);
    }
    item
}

pub(crate) async fn enqueue(provider: &CosmosDBProvider, item: WorkItem) {
    ok!(provider.enqueue_for_worker(item));
}

/// What the workers of all runtimes did, by tag.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    running: BTreeMap<String, u32>,
    pub(crate) most: BTreeMap<String, u32>,
    ended: Vec<(String, Instant)>,
    pub(crate) started: Vec<(String, Instant)>,
}

impl Seen {
    pub(crate) fn of(&self, tag: &str) -> usize {
        self.ended.iter().filter(|(ended, _)| ended == tag).count()
    }
}

/// Runs activities that take `time`, until `is_over` or for a minute without any.
async fn work(
    provider: &CosmosDBProvider,
    seen: &Arc<Mutex<Seen>>,
    time: Duration,
    is_over: &impl Fn(&Seen) -> bool,
) {
    while !is_over(&seen.lock().expect("no test has panicked")) {
        let fetched = provider.fetch_work_item(lock_time(), POLL, None, &TagFilter::Any);
        let Ok(fetched) = tokio::time::timeout(Duration::from_secs(60), fetched).await else {
            return;
        };
        let Some((WorkItem::ActivityExecute { tag, .. }, token, _)) = fetched.expect("fetch")
        else {
            continue;
        };
        let tag = tag.unwrap_or_default();
        {
            let mut seen = seen.lock().expect("no test has panicked");
            seen.started.push((tag.clone(), Instant::now()));
            let running = seen.running.entry(tag.clone()).or_default();
            *running += 1;
            let running = *running;
            let most = seen.most.entry(tag.clone()).or_default();
            *most = running.max(*most);
        }
        tokio::time::sleep(time).await;
        {
            let mut seen = seen.lock().expect("no test has panicked");
            *seen.running.get_mut(&tag).expect("it runs") -= 1;
            seen.ended.push((tag, Instant::now()));
        }
        let acked = provider.ack_work_item(&token, None).await;
        acked.expect("its lock is held");
    }
}

/// Runs workers of each runtime until all `count` activities have ended.
pub(crate) async fn work_off(
    runtimes: &[&CosmosDBProvider],
    workers: usize,
    time: Duration,
    count: usize,
) -> Seen {
    let within = Duration::from_secs(24 * 3600);
    work_off_within(runtimes, workers, time, count, within).await
}

/// The same, at most for a time.
pub(crate) async fn work_off_within(
    runtimes: &[&CosmosDBProvider],
    workers: usize,
    time: Duration,
    count: usize,
    within: Duration,
) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let begun = Instant::now();
    let is_over = |seen: &Seen| seen.ended.len() >= count || begun.elapsed() >= within;
    let all = runtimes
        .iter()
        .flat_map(|runtime| (0..workers).map(|_| work(runtime, &seen, time, &is_over)));
    let all: Vec<_> = all.collect();
    // The last activity ends the other workers' fetches.
    let done = async {
        while !is_over(&seen.lock().expect("no test has panicked")) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        _ = join_all(all) => {}
        () = done => {}
    }
    Arc::try_unwrap(seen).map_or_else(
        |shared| std::mem::take(&mut *shared.lock().expect("no test has panicked")),
        |seen| seen.into_inner().expect("no test has panicked"),
    )
}

#[tokio::test(start_paused = true)]
async fn runtimes_keep_to_a_limit_together_and_use_all_of_it() {
    let backend = Backend::start_simulated().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    set(&first, rule("tag=bank").running(3)).await;
    for number in 0..60 {
        enqueue(&first, tagged(number, "bank")).await;
        enqueue(&first, tagged(100 + number, "free")).await;
    }
    tokio::time::sleep(KNOWN_WITHIN).await;
    // A runtime that opens the container later knows the limit before it starts anything.
    let third = backend.provider().await;
    let begun = Instant::now();
    let runtimes = [&first, &second, &third];
    let seen = work_off(&runtimes, 4, Duration::from_secs(1), 120).await;
    assert_eq!(seen.of("bank"), 60);
    assert_eq!(seen.most["bank"], 3);
    assert!(
        seen.most["free"] > 6,
        "the others do not wait: {:?}",
        seen.most
    );
    let last = seen
        .ended
        .iter()
        .map(|(_, at)| *at)
        .max()
        .expect("all ended");
    // 60 activities, three at a time, take 20 s.
    let time = last - begun;
    assert!(time < Duration::from_secs(30), "{time:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn runtimes_keep_to_a_rate_together() {
    let backend = Backend::start_simulated().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    set(&first, rule("tag=bank").starts_per_second(5.0)).await;
    for number in 0..80 {
        enqueue(&first, tagged(number, "bank")).await;
    }
    tokio::time::sleep(KNOWN_WITHIN).await;
    let seen = work_off(&[&first, &second], 8, Duration::from_millis(10), 80).await;
    let starts: Vec<_> = seen.started.iter().map(|(_, at)| *at).collect();
    // In no second more than the rate, and a second of unused starts.
    let most = starts.iter().map(|from| {
        let within = |at: &&Instant| **at >= *from && **at < *from + Duration::from_secs(1);
        starts.iter().filter(within).count()
    });
    let most = most.max().expect("some started");
    assert!(most <= 10, "{most} started in a second");
    let time = *starts.last().expect("some started") - starts[0];
    assert!(time > Duration::from_secs(14), "{time:?}");
    assert!(time < Duration::from_secs(25), "{time:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_pauses_the_container_until_it_is_removed() {
    let backend = Backend::start_simulated().await;
    let (operator, runtime) = (backend.provider().await, backend.provider().await);
    set(&operator, rule("*").running(0)).await;
    tokio::time::sleep(KNOWN_WITHIN).await;
    enqueue(&operator, early("a")).await;
    let fetch = runtime.fetch_work_item(lock_time(), POLL, None, &TagFilter::Any);
    // The fetch polls as ever, and knows the limit from its first probe.
    let fetched = tokio::time::timeout(Duration::from_secs(60), fetch).await;
    assert!(matches!(fetched, Ok(Ok(None)) | Err(_)), "it is paused");
    let removed = operator
        .remove_limit(&"*".parse().expect("valid"), "ada")
        .await;
    removed.expect("it exists");
    let begun = Instant::now();
    let seen = work_off(&[&runtime], 1, Duration::ZERO, 1).await;
    assert_eq!(seen.of("a"), 1);
    assert!(begun.elapsed() <= KNOWN_WITHIN, "{:?}", begun.elapsed());
    backend.stop().await;
}

/// A flood of one key waits in front of others, in a process that knows none of them.
#[tokio::test(start_paused = true)]
async fn a_flood_of_one_key_does_not_hide_the_others_from_polls() {
    let backend = Backend::start_simulated().await;
    let client = backend.provider().await;
    set(&client, rule("tag=*").weight(1)).await;
    for number in 0..1_000 {
        enqueue(&client, tagged(number, "flood")).await;
    }
    for number in 0..5 {
        enqueue(&client, tagged(5_000 + number, "small")).await;
    }
    let runtime = backend.provider().await;
    let begun = Instant::now();
    let seen = work_off(&[&runtime], 2, Duration::from_millis(100), 60).await;
    assert_eq!(seen.of("small"), 5);
    let last = seen.ended.iter().filter(|(tag, _)| tag == "small");
    let last = last.map(|(_, at)| *at).max().expect("they ended");
    // Without a rule, they would wait for 1,000 activities: 50 s.
    let time = last - begun;
    assert!(time < Duration::from_secs(4), "{time:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_flood_does_not_delay_others() {
    let backend = Backend::start_simulated().await;
    let client = backend.provider().await;
    set(&client, rule("tag=flood").running(0)).await;
    for number in 0..1_000 {
        enqueue(&client, tagged(number, "flood")).await;
    }
    enqueue(&client, tagged(5_000, "small")).await;
    let runtime = backend.provider().await;
    let begun = Instant::now();
    let seen = work_off(&[&runtime], 2, Duration::from_millis(100), 1).await;
    assert_eq!(seen.of("small"), 1);
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    backend.stop().await;
}

#[tokio::test]
async fn activities_have_the_labels_of_their_instance() {
    let mut env = TestEnv::with_config(by_tenant).await;
    let order = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("CallBank", "").await
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", order)
        .build();
    // A long value is stored as its beginning and a hash, and a rule for the whole value selects it.
    let long = "a".repeat(65);
    for tenant in ["ada", &long] {
        // A pause of the label alone would keep the instances from beginning.
        let rule = rule(&format!("activity=*,tenant={tenant}")).running(0);
        set(&env.provider, rule.priority(Priority::Low)).await;
    }
    env.join(no_activities(), orchestrations, RuntimeOptions::default())
        .await;
    for tenant in ["ada", &long] {
        let instance = &*format!("{tenant}:order");
        env.begin(instance, "Order", "").await;
        let waiting = until_some(async || {
            let query = Query::<WorkerItem>::in_partition(instance);
            let found = env.provider.container().query(query).all().await;
            found.expect("a query").pop()
        });
        let waiting = waiting.await.document;
        let labels = waiting.labels.expect("this version writes labels");
        assert_eq!(
            (&*labels.activity, &*labels.orchestration),
            ("CallBank", "Order")
        );
        let stored = &labels.of_instance["tenant"];
        assert_eq!(
            (&stored[..3], stored.len()),
            (&tenant[..3], tenant.len().min(64))
        );
        assert_eq!(
            waiting.lock_token, None,
            "it is paused, so it is not locked ahead"
        );
    }
    env.stop().await;
}

/// Enqueues activities at a rate, and returns when each was enqueued.
async fn enqueue_at(
    client: &CosmosDBProvider,
    per_second: u64,
    seconds: u64,
    tag: impl Fn(u64) -> String,
) {
    let mut next = Instant::now();
    for number in 0..per_second * seconds {
        enqueue(client, tagged(number, &tag(number))).await;
        next += Duration::from_secs(1) / u32::try_from(per_second).expect("it is small");
        tokio::time::sleep_until(next).await;
    }
}

/// Returns the requests per activity at 20 activities a second of one key, for 30 s.
async fn requests_per_activity(limit: Option<Rule>) -> Option<f64> {
    let backend = Backend::start_simulated().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    if let Some(limit) = limit {
        set(&first, limit).await;
    }
    tokio::time::sleep(KNOWN_WITHIN).await;
    let emulator = backend.emulator()?;
    emulator.reset_requests();
    let runtimes = [&first, &second];
    let work = work_off(&runtimes, 8, Duration::from_millis(200), 600);
    let (seen, ()) = tokio::join!(work, enqueue_at(&first, 20, 30, |_| "bank".to_owned()));
    let count = emulator.requests().data_requests();
    assert_eq!(seen.of("bank"), 600);
    backend.stop().await;
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let per_activity = count as f64 / 600.0;
    Some(per_activity)
}

#[tokio::test(start_paused = true)]
async fn a_limit_costs_at_most_a_fifth_of_a_request_per_activity() {
    let without = or_skip!(requests_per_activity(None).await);
    let limit = rule("tag=bank").running(6);
    let with = requests_per_activity(Some(limit))
        .await
        .expect("it runs on the emulator");
    println!("{without:.3} requests per activity without a limit, {with:.3} with one");
    assert!(with <= without + 0.2, "{without} and {with}");
}

/// Returns the time from its queueing to its end of each activity that is not of the flood.
async fn latencies(flood_per_second: u64, seconds: u64) -> Vec<Duration> {
    const OTHERS_PER_SECOND: u64 = 20;
    let backend = Backend::start_simulated().await;
    let client = backend.provider().await;
    set(&client, rule("tag=*").weight(1)).await;
    let runtimes = join_all((0..8).map(|_| backend.provider())).await;
    let runtimes: Vec<_> = runtimes.iter().collect();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let count = usize::try_from(OTHERS_PER_SECOND * seconds).expect("it is small");
    let is_over = |seen: &Seen| {
        seen.ended
            .iter()
            .filter(|(tag, _)| tag.starts_with("key"))
            .count()
            >= count
    };
    let workers = runtimes.iter().flat_map(|runtime| (0..2).map(|_| *runtime));
    let workers: Vec<_> = workers
        .map(|runtime| work(runtime, &seen, Duration::from_millis(100), &is_over))
        .collect();
    // 99 keys in turn.
    let queued = Mutex::new(BTreeMap::<String, Vec<Instant>>::new());
    let others = enqueue_at(&client, OTHERS_PER_SECOND, seconds, |number| {
        let tag = format!("key-{}", number % 99);
        let mut queued = queued.lock().expect("no test has panicked");
        queued.entry(tag.clone()).or_default().push(Instant::now());
        tag
    });
    let flood = async {
        if flood_per_second > 0 {
            let mut next = Instant::now();
            for number in 0..flood_per_second * seconds {
                enqueue(&client, tagged(100_000 + number, "flood")).await;
                next += Duration::from_secs(1) / u32::try_from(flood_per_second).expect("small");
                tokio::time::sleep_until(next).await;
            }
        }
    };
    tokio::join!(join_all(workers), others, flood);
    let seen = std::mem::take(&mut *seen.lock().expect("no test has panicked"));
    let mut latencies = Vec::new();
    for (tag, queued) in queued.into_inner().expect("no test has panicked") {
        let ended = seen.ended.iter().filter(|(ended, _)| *ended == tag);
        latencies.extend(
            ended
                .zip(queued)
                .map(|((_, ended), queued)| *ended - queued),
        );
    }
    latencies.sort();
    backend.stop().await;
    latencies
}

/// The flood alone wants more than all workers can do.
async fn a_flood_does_not_slow_down_others(seconds: u64, slack: Duration) {
    let p99 = |latencies: &[Duration]| latencies[latencies.len() * 99 / 100];
    let (unloaded, loaded) = (latencies(0, seconds).await, latencies(180, seconds).await);
    let (unloaded, loaded) = (p99(&unloaded), p99(&loaded));
    println!("p99 of the others: {unloaded:?} alone, {loaded:?} beside a flood");
    assert!(
        loaded <= unloaded.mul_f64(1.2) + slack,
        "{unloaded:?} and {loaded:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_does_not_slow_down_other_keys() {
    // The slowest of 60 may have waited for one poll more.
    a_flood_does_not_slow_down_others(3, Duration::from_millis(1_250)).await;
}

/// The measure of docs/limits.md.
#[tokio::test(start_paused = true)]
#[ignore = "takes a minute"]
async fn a_long_flood_does_not_slow_down_other_keys() {
    a_flood_does_not_slow_down_others(20, Duration::ZERO).await;
}
