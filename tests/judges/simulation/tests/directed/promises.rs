//! What holds on the real service: one test for each promise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_chaos::Books;
use cdb_client::Bootstrap;
use cdb_emulator::{Effect, Emulator, Failover, Fault, IndexBuild, ReplicaLag, RequestLog};
use cdb_provider::{CosmosDBProvider, MembershipConfig};
use cdb_simulation::{NodeSettings, Scenario};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};
use tokio::time::{Instant, sleep};

use crate::{output, output_after, settings, start};

/// The default time of a turn's lock.
const TURN_LOCK: Duration = Duration::from_secs(5);

/// Runs orchestrations of ten seconds during faults that end after `fault`. Each ends at most a
/// lock time and two seconds after they would have ended without.
async fn complete_despite(scenario: &Scenario, fault: Duration, disturb: impl AsyncFnOnce()) {
    let _node = scenario.node(1, &settings()).await;
    let (_, client) = scenario.client().await;
    for number in 0..10 {
        start(&client, &format!("steps-{number}"), "Steps", "").await;
    }
    let begun = Instant::now();
    sleep(Duration::from_secs(3)).await;
    disturb().await;
    let bound = Duration::from_secs(10) + fault + TURN_LOCK + Duration::from_secs(2);
    for number in 0..10 {
        let (done, took) = output_after(&client, &format!("steps-{number}"), begun).await;
        assert_eq!(done, "done");
        assert!(took < bound, "steps-{number} took {took:?}");
    }
}

#[test]
fn no_orchestration_fails_when_the_write_region_moves() {
    let emulator = Emulator::builder().regions(["West", "East"]);
    Scenario::run(emulator, async |scenario| {
        let document = Duration::from_secs(2);
        complete_despite(&scenario, document * 2, async || {
            let moved = Failover::to("East").document_after(document);
            let moved = moved.dns_after(document * 2);
            let region = scenario.emulator().failover_with(&moved);
            region.expect("there are two regions");
        })
        .await;
    });
}

#[test]
fn no_orchestration_fails_when_rights_flap() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let refused = Duration::from_secs(3);
        complete_despite(&scenario, refused * 3, async || {
            for (status, substatus) in [(403, 5302), (401, 0), (403, 0)] {
                let fault = Fault::always(Effect::error(status, substatus)).on_every_kind();
                scenario.emulator().inject(fault.lasting(refused));
                sleep(refused).await;
            }
        })
        .await;
    });
}

/// The first turns of instances.
type Turns = Arc<Mutex<BTreeMap<String, Instant>>>;

/// Settings of nodes whose orchestrations note when they begin.
fn noting(turns: &Turns) -> NodeSettings {
    let turns = turns.clone();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Begin", move |ctx: OrchestrationContext, _: String| {
            let turns = turns.clone();
            async move {
                let mut turns = turns.lock().expect("no orchestration panics");
                let begun = turns.entry(ctx.instance_id());
                begun.or_insert_with(Instant::now);
                Ok(String::new())
            }
        })
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(Duration::from_secs(15)).await;
            Ok(String::new())
        })
        .build();
    NodeSettings::new(orchestrations, ActivityRegistry::builder().build())
}

/// Returns whether an instance is in a physical partition.
async fn is_in(provider: &CosmosDBProvider, instance: &str, partition: &str) -> bool {
    let range = provider
        .container()
        .physical_partition_of(&instance.into())
        .await;
    let range = range.expect("the partitions are listed");
    range.expect("a string is hashed").to_string() == partition
}

/// Makes partition 7 sick for a minute and starts instances in the other partitions. Each begins
/// within `bound`.
async fn others_begin_within(scenario: &Scenario, turns: &Turns, bound: Duration) {
    let (provider, client) = scenario.client().await;
    let sick = Fault::always(Effect::Silence).on_partition("7");
    let sick = sick.on_every_kind().lasting(Duration::from_secs(60));
    scenario.emulator().inject(sick);
    let mut started = BTreeMap::new();
    for number in 0..100 {
        let instance = format!("i-{number}");
        if !is_in(&provider, &instance, "7").await {
            start(&client, &instance, "Begin", "").await;
            started.insert(instance, Instant::now());
        }
        sleep(Duration::from_millis(500)).await;
    }
    sleep(Duration::from_secs(10)).await;
    let turns = turns.lock().expect("no orchestration panics");
    for (instance, started) in &started {
        let begun = turns.get(instance).expect("it has begun");
        let latency = begun.saturating_duration_since(*started);
        assert!(latency < bound, "{instance}: {latency:?}");
    }
}

#[test]
fn the_other_partitions_go_on_while_one_of_fifty_is_sick() {
    let emulator = Emulator::builder().physical_partitions(50);
    Scenario::run(emulator, async |scenario| {
        let turns = Turns::default();
        let _node = scenario.node(1, &noting(&turns)).await;
        others_begin_within(&scenario, &turns, Duration::from_secs(2)).await;
    });
}

#[test]
fn a_sick_partition_with_known_messages_delays_no_other() {
    let emulator = Emulator::builder().physical_partitions(50);
    Scenario::run(emulator, async |scenario| {
        let turns = Turns::default();
        let _node = scenario.node(1, &noting(&turns)).await;
        let (provider, client) = scenario.client().await;
        // The timers of these instances fire while the partition is sick, and the node knows them.
        let mut waiting = 0;
        for number in 0..1_000 {
            let instance = format!("w-{number}");
            if is_in(&provider, &instance, "7").await {
                start(&client, &instance, "Wait", "").await;
                waiting += 1;
            }
        }
        assert!(waiting > 10, "only {waiting} instances");
        sleep(Duration::from_secs(10)).await;
        others_begin_within(&scenario, &turns, Duration::from_secs(5)).await;
    });
}

fn requests(scenario: &Scenario) -> f64 {
    let total = scenario.emulator().requests().total();
    f64::from(u32::try_from(total).unwrap_or(u32::MAX))
}

#[test]
fn fifty_partitions_cost_a_single_runtime_one_probe_per_second_each() {
    let emulator = Emulator::builder().physical_partitions(50);
    Scenario::run(emulator, async |scenario| {
        let node = scenario.node(1, &settings()).await;
        let client = node.client();
        sleep(Duration::from_secs(30)).await;
        scenario.emulator().reset_requests();
        sleep(Duration::from_secs(60)).await;
        let idle = requests(&scenario) / 60.0;
        let log = || scenario.emulator().requests();
        assert!(
            idle <= 50.0,
            "{idle} requests per idle second: {:#?}",
            log()
        );
        // Ten seconds of idle probes are divided by the instances.
        let cost = backlog(&scenario, &client, "hello", 40).await;
        assert!(cost <= 25.0, "{cost} requests per instance");
        let cost = backlog(&scenario, &client, "more", 300).await;
        assert!(cost <= 10.0, "{cost} requests per instance of a backlog");
    });
}

/// Starts instances at once and waits for their ends without requests. Returns the requests per
/// instance.
async fn backlog(scenario: &Scenario, client: &Client, name: &str, count: u32) -> f64 {
    scenario.emulator().reset_requests();
    for number in 0..count {
        start(client, &format!("{name}-{number}"), "Hello", name).await;
    }
    sleep(Duration::from_secs(10)).await;
    let cost = requests(scenario) / f64::from(count);
    for number in 0..count {
        assert_eq!(output(client, &format!("{name}-{number}")).await, name);
    }
    cost
}

fn member(number: u32) -> MembershipConfig {
    MembershipConfig::named(format!("node-{number}"))
}

/// Returns the requests of an idle cluster in 20 seconds.
fn requests_of_idle(runtimes: u32, partitions: u32) -> RequestLog {
    let log = Arc::new(Mutex::new(None));
    let result = Arc::clone(&log);
    let emulator = Emulator::builder().physical_partitions(partitions);
    Scenario::run(emulator, async move |scenario| {
        let mut nodes = Vec::new();
        for number in 0..runtimes {
            let mut settings = settings();
            settings.provider.membership = Some(member(number));
            nodes.push(scenario.node(number, &settings).await);
        }
        sleep(Duration::from_secs(20)).await;
        scenario.emulator().reset_requests();
        sleep(Duration::from_secs(20)).await;
        *result.lock().unwrap() = Some(scenario.emulator().requests());
    });
    let log = log.lock().unwrap().take();
    log.expect("the cluster ran")
}

/// Every runtime searches all partitions for overdue items, because it may be the only one that can
/// run them.
#[test]
fn fifty_idle_runtimes_search_each_partition_every_eight_seconds() {
    let log = requests_of_idle(50, 100);
    assert!(log.total() <= 20 * 100 * 9, "{log:#?}");
}

/// Each of them polls one partition. A heartbeat costs about 30 RU every 3 s, a poll of a partition
/// 3 RU.
#[test]
fn as_many_idle_runtimes_as_partitions_do_not_search_all_partitions() {
    let log = requests_of_idle(20, 20);
    assert!(log.charge <= 20.0 * 20.0 * 25.0, "{log:#?}");
}

#[test]
fn a_second_opener_waits_for_an_index_that_is_being_built() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let mut settings = settings();
        let database = scenario.cosmos().database(&settings.provider.database);
        let plain =
            database.bootstrap::<Books>(&settings.provider.container, Bootstrap::CreateIfMissing);
        plain.await.expect("a container without our indexes");
        let build = Duration::from_secs(300);
        let emulator = scenario.emulator();
        let set = emulator.change(|settings| settings.index_build(IndexBuild::Lasting(build)));
        set.expect("it changes while it runs");
        settings.provider.index_timeout = build * 2;
        let begun = Instant::now();
        let opened = async |number| {
            let opened = scenario.open(number, &settings.provider).await;
            opened.expect("it opens after the build");
            begun.elapsed()
        };
        let (first, second) = tokio::join!(opened(1), async {
            sleep(Duration::from_secs(10)).await;
            opened(2).await
        });
        assert!(first >= build && second >= build, "{first:?}, {second:?}");
        let client = scenario.node(3, &settings).await.client();
        start(&client, "i", "Hello", "hello").await;
        assert_eq!(output(&client, "i").await, "hello");
    });
}

#[test]
fn the_work_of_a_killed_member_goes_on_two_seconds_after_its_detection() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let turns = Turns::default();
        let mut settings = killed_once(&turns);
        settings.provider.membership = Some(member(1));
        let first = scenario.node(1, &settings).await;
        let (_, client) = scenario.client().await;
        for number in 0..2 {
            start(&client, &format!("i-{number}"), "Work", "").await;
        }
        sleep(Duration::from_secs(5)).await;
        settings.provider.membership = Some(member(2));
        let _second = scenario.node(2, &settings).await;
        sleep(Duration::from_secs(20)).await;
        turns.lock().expect("no activity panics").clear();
        let killed = first.kill().await;
        // Three heartbeats until the other member removes it.
        let bound = Duration::from_secs(3 * 3 + 2);
        sleep(Duration::from_secs(60)).await;
        let turns = turns.lock().expect("no activity panics");
        assert_eq!(turns.len(), 2, "two activities were running");
        for (instance, begun) in &*turns {
            let after = begun.duration_since(killed);
            assert!(after < bound, "{instance} went on after {after:?}");
        }
    });
}

/// Settings of nodes whose activities take an hour and note when they begin. Locks last minutes.
fn killed_once(begun: &Turns) -> NodeSettings {
    let begun = begun.clone();
    let activities = ActivityRegistry::builder()
        .register("Work", move |ctx: duroxide::ActivityContext, _: String| {
            let begun = begun.clone();
            async move {
                let at = (ctx.instance_id().to_owned(), Instant::now());
                begun.lock().expect("no activity panics").extend([at]);
                sleep(Duration::from_secs(3600)).await;
                Ok(String::new())
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Work", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Work", "").await
        })
        .build();
    let mut settings = NodeSettings::new(orchestrations, activities);
    settings.runtime.worker_lock_timeout = Duration::from_secs(300);
    settings.runtime.orchestrator_lock_timeout = Duration::from_secs(300);
    settings
}

#[test]
fn lagging_replicas_give_no_wrong_result_and_delay_by_the_lag_at_most() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let nodes = [
            scenario.node(1, &settings()).await,
            scenario.node(2, &settings()).await,
        ];
        let lag = Duration::from_secs(3);
        let set = scenario
            .emulator()
            .change(|settings| settings.replica_lag(ReplicaLag::time(lag)));
        set.expect("the lag is valid");
        let client = nodes[0].client();
        for number in 0..20 {
            let begun = Instant::now();
            let instance = format!("hello-{number}");
            start(&client, &instance, "Hello", &instance).await;
            let (answer, took) = output_after(&nodes[1].client(), &instance, begun).await;
            assert_eq!(answer, instance);
            // Start and result are read with the lag.
            assert!(took < lag * 2 + Duration::from_secs(3), "{took:?}");
        }
    });
}
