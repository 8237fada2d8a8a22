//! Labels that the program derives from the ids of instances, and the order of turns by them. Time is
//! simulated.

use std::sync::Mutex;
use std::time::Duration;

use cdb_model::Query;
use cdb_provider::documents::{Priority, Rule, WorkerItem};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InstanceLabel};
use duroxide::providers::Provider;
use duroxide::runtime::RuntimeOptions;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use futures::future::join_all;
use tokio::time::Instant;

use cdb_tests::Backend;

use crate::harness::{TestEnv, no_activities, until_some};
use crate::several::{ack, enqueue, start};
use crate::work_items::{activity_of, start_of};

/// Labels an instance with the tenant that its id begins with.
pub(crate) fn by_tenant(config: &mut CosmosDBProviderConfig) {
    let tenant = |id: &str| Some(id.split_once(':')?.0.to_owned());
    config.labels = vec![InstanceLabel::new("tenant", tenant)];
}

async fn set(provider: &CosmosDBProvider, select: &str, limit: impl FnOnce(Rule) -> Rule) {
    let rule = Rule::new(select.parse().expect("it is valid"));
    ok!(provider.set_limit(limit(rule), "ada"));
}

/// Waits until an instance has so many activities.
async fn activities(env: &TestEnv, instance: &str, count: usize) -> Vec<WorkerItem> {
    until_some(async || {
        let query = Query::<WorkerItem>::in_partition(instance);
        let found = ok!(env.provider.container().query(query).all());
        (found.len() == count).then(|| found.into_iter().map(|item| item.document).collect())
    })
    .await
}

#[tokio::test]
async fn limits_select_activities_by_a_label_that_the_program_derives_from_the_instance_id() {
    // More than a commit holds: some leave in intents.
    const MANY: usize = 150;
    let mut env = TestEnv::with_config(by_tenant).await;
    let order = |ctx: OrchestrationContext, count: String| async move {
        let count = count.parse().unwrap_or_default();
        let calls = (0..count).map(|_| ctx.schedule_activity("CallBank", ""));
        ctx.join(calls.collect()).await;
        Ok(String::new())
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", order)
        .build();
    // A pause of the label alone would keep the instances from beginning.
    let select = "activity=*,tenant=acme";
    set(&env.provider, select, |rule| rule.running(0)).await;
    let outside = env
        .provider
        .enqueue_for_worker(activity_of("acme:order-1", 2, None));
    outside.await.expect("the activity is stored");
    env.join(no_activities(), orchestrations, RuntimeOptions::default())
        .await;
    env.begin("acme:order-2", "Order", "1").await;
    env.begin("acme:order-3", "Order", &MANY.to_string()).await;
    let mut all = activities(&env, "acme:order-1", 1).await;
    all.extend(activities(&env, "acme:order-2", 1).await);
    all.extend(activities(&env, "acme:order-3", MANY).await);
    for activity in all {
        let id = &activity.instance_id;
        let labels = activity.labels.expect("this version writes labels");
        assert_eq!(labels.of_instance["tenant"], "acme", "{id}");
        assert_eq!(
            activity.lock_token, None,
            "{id} is paused, so it is not locked ahead"
        );
    }
    env.stop().await;
}

/// The wait of a fetch, as a runtime's dispatcher sends it.
const POLL: Duration = Duration::from_secs(30);

/// The time of a turn.
const TURN: Duration = Duration::from_millis(100);

/// Instances with the times at which their first turns ended.
type Ended = Mutex<Vec<(String, Instant)>>;

/// Runs turns until `is_over`.
async fn dispatch(
    provider: &CosmosDBProvider,
    ended: &Ended,
    is_over: &impl Fn(&[(String, Instant)]) -> bool,
) {
    let lock = RuntimeOptions::default().orchestrator_lock_timeout;
    while !is_over(&ended.lock().expect("no test has panicked")) {
        let fetched = provider.fetch_orchestration_item(lock, POLL, None);
        let Some((item, token, _)) = fetched.await.expect("fetch") else {
            continue;
        };
        tokio::time::sleep(TURN).await;
        let end = (item.instance.clone(), Instant::now());
        ended.lock().expect("no test has panicked").push(end);
        ack(provider, &item, &token).await;
    }
}

/// Starts instances of a tenant at a rate. Returns when each was started.
async fn start_at(
    client: &CosmosDBProvider,
    per_second: u32,
    seconds: u32,
    id: impl Fn(u32) -> String,
) -> Vec<(String, Instant)> {
    let mut started = Vec::new();
    let mut next = Instant::now();
    for number in 0..per_second * seconds {
        let id = id(number);
        started.push((id.clone(), Instant::now()));
        enqueue(client, start(&id)).await;
        next += Duration::from_secs(1) / per_second;
        tokio::time::sleep_until(next).await;
    }
    started
}

/// Returns the times from a start to the end of the first turn for 99 tenants, beside one that
/// starts `flood` instances a second.
async fn latencies(flood: u32, seconds: u32) -> Vec<Duration> {
    const OTHERS: u32 = 20;
    let backend = Backend::start_simulated_with(by_tenant).await;
    let client = backend.provider().await;
    set(&client, "tenant=*", |rule| rule.weight(1)).await;
    let runtimes = join_all((0..8).map(|_| backend.provider())).await;
    let ended = Ended::default();
    let count = usize::try_from(OTHERS * seconds).expect("it is small");
    let is_over = |ended: &[(String, Instant)]| {
        let others = ended.iter().filter(|(id, _)| id.starts_with("key"));
        others.count() >= count
    };
    let dispatchers = runtimes.iter().flat_map(|runtime| [runtime, runtime]);
    let dispatchers = dispatchers.map(|runtime| dispatch(runtime, &ended, &is_over));
    let other = |number| format!("key-{}:{number}", number % 99);
    let others = start_at(&client, OTHERS, seconds, other);
    let flood = async {
        if flood > 0 {
            start_at(&client, flood, seconds, |number| format!("flood:{number}")).await;
        }
    };
    let (_, started, ()) = tokio::join!(join_all(dispatchers), others, flood);
    let ended = ended.into_inner().expect("no test has panicked");
    let latency = |(id, at): (String, Instant)| {
        let end = ended.iter().find(|(ended, _)| *ended == id);
        end.expect("it ended").1 - at
    };
    let mut latencies: Vec<_> = started.into_iter().map(latency).collect();
    latencies.sort();
    if let Some(emulator) = backend.emulator() {
        let (log, turns) = (emulator.requests(), ended.len());
        println!(
            "{turns} turns: {} requests, {:.0} RU",
            log.total(),
            log.charge
        );
    }
    backend.stop().await;
    latencies
}

/// Compares the 99 tenants beside a flood with the same alone.
async fn a_flood_does_not_slow_down_others(flood: u32, seconds: u32, slack: Duration) {
    let p99 = |latencies: &[Duration]| latencies[latencies.len() * 99 / 100];
    let (alone, beside) = (latencies(0, seconds).await, latencies(flood, seconds).await);
    let (alone, beside) = (p99(&alone), p99(&beside));
    println!("p99 of the others' first turns: {alone:?} alone, {beside:?} beside a flood");
    assert!(
        beside <= alone.mul_f64(1.2) + slack,
        "{alone:?} and {beside:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_starts_does_not_slow_down_other_tenants() {
    // By age, the last of the others would wait for 1,300 turns: 8 s. The slowest of 60 may have
    // waited for a poll more.
    a_flood_does_not_slow_down_others(600, 3, Duration::from_millis(500)).await;
}

/// The measure of docs/limits.md: the flood is 90 % of all starts, and more than the dispatchers
/// can do.
#[tokio::test(start_paused = true)]
#[ignore = "takes a minute"]
async fn a_long_flood_of_starts_does_not_slow_down_other_tenants() {
    a_flood_does_not_slow_down_others(180, 20, Duration::ZERO).await;
}

/// A flood waits in front of another start, in a process that knows none of them.
#[tokio::test(start_paused = true)]
async fn a_flood_of_low_priority_does_not_hide_other_starts_from_polls() {
    let backend = Backend::start_simulated().await;
    let client = backend.provider().await;
    let low = |rule: Rule| rule.priority(Priority::Low);
    set(&client, "orchestration=Report", low).await;
    for number in 0..1_000 {
        enqueue(&client, start_of(&format!("report-{number}"), "Report")).await;
    }
    enqueue(&client, start_of("order", "Order")).await;
    let runtime = backend.provider().await;
    let (begun, ended) = (Instant::now(), Ended::default());
    let is_over = |ended: &[(String, Instant)]| ended.iter().any(|(id, _)| id == "order");
    dispatch(&runtime, &ended, &is_over).await;
    // By age, it would wait for 1,000 turns: 100 s.
    let time = begun.elapsed();
    assert!(time < Duration::from_secs(2), "{time:?}");
    backend.stop().await;
}
