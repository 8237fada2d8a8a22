//! The writes of single physical partitions move to another region, while runtimes work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE};
use cdb_emulator::{Effect, Emulator, Fault, Settings};
use cdb_provider::CosmosDBProvider;
use cdb_simulation::{NodeSettings, Scenario};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use futures::StreamExt as _;
use tokio::time::{Instant, sleep};

use crate::{output, start};

const PARTITIONS: u32 = 50;
const WEST: &str = "West";
const EAST: &str = "East";

/// When activities ran, by instance.
type Ran = Arc<Mutex<Vec<(String, Instant)>>>;

fn account() -> Settings {
    let settings = Emulator::builder().regions([WEST, EAST]);
    settings
        .partition_failover(true)
        .physical_partitions(PARTITIONS)
}

/// Settings of a node that runs `Chain`: as many activities in a row as its input says. Its output
/// is the sum of their results, which are their numbers.
fn settings(ran: &Ran) -> NodeSettings {
    let orchestrations = OrchestrationRegistry::builder().register(
        "Chain",
        |ctx: OrchestrationContext, length: String| async move {
            let length: u32 = length.parse().map_err(|_| "no number".to_owned())?;
            let mut sum = 0;
            for number in 1..=length {
                let counted = ctx.schedule_activity("Count", number.to_string()).await?;
                sum += counted.parse::<u32>().unwrap_or_default();
            }
            Ok(sum.to_string())
        },
    );
    let ran = ran.clone();
    let activities = ActivityRegistry::builder().register(
        "Count",
        move |ctx: ActivityContext, number: String| {
            let instance = ctx.instance_id().to_owned();
            let ran = ran.clone();
            async move {
                let mut ran = ran.lock().expect("no activity panics");
                ran.push((instance, Instant::now()));
                Ok(number)
            }
        },
    );
    let mut settings = NodeSettings::new(orchestrations.build(), activities.build());
    settings.runtime.observability.gauge_poll_interval = Duration::from_secs(24 * 3600);
    settings.runtime.orchestration_concurrency = 8;
    settings.runtime.worker_concurrency = 8;
    settings
}

async fn partition_of(provider: &CosmosDBProvider, instance: &str) -> String {
    let range = provider
        .container()
        .physical_partition_of(&instance.into())
        .await;
    let range = range.expect("the partitions are listed");
    range.expect("a string is hashed").to_string()
}

fn fail_over(emulator: &Emulator, partition: &str, region: &str) {
    let moved = emulator.fail_over_partition(DATABASE, CONTAINER, partition, region);
    moved.expect("there are such a partition and region");
}

/// Makes a partition sick in the west.
fn sicken(emulator: &Emulator, partition: &str, effect: Effect) {
    let sick = Fault::always(effect)
        .on_partition(partition)
        .in_region(WEST);
    emulator.inject(sick.on_every_kind());
}

/// What a run of chains found.
#[derive(Default)]
struct Run {
    /// How long the chains in partitions that did not move took.
    others: Duration,
    /// The time from the move until the first and the last chain of the moved partition went on.
    resumed: [Duration; 2],
}

/// Runs 200 chains while a partition is sick for `outage`, and then moves.
fn run_chains(sickness: Option<Effect>, outage: Duration, fails_over: bool) -> Run {
    let run = Arc::new(Mutex::new(Run::default()));
    let found = run.clone();
    Scenario::run(account(), async move |scenario| {
        let ran = Ran::default();
        let _node = scenario.node(1, &settings(&ran)).await;
        let (provider, client) = scenario.client().await;
        let mut partitions = BTreeMap::new();
        for number in 0..200 {
            let instance = format!("chain-{number}");
            let partition = partition_of(&provider, &instance).await;
            partitions.insert(instance, partition);
        }
        let failing = &partitions["chain-199"];
        let begun = Instant::now();
        let starting = partitions
            .keys()
            .map(|it| start(&client, it, "Chain", "20"));
        futures::future::join_all(starting).await;
        sleep(Duration::from_millis(500)).await;
        let emulator = scenario.emulator();
        if let Some(effect) = sickness {
            sicken(emulator, failing, effect);
        }
        sleep(outage).await;
        let moved = Instant::now();
        if fails_over {
            fail_over(emulator, failing, EAST);
        }
        for instance in partitions.keys() {
            assert_eq!(output(&client, instance).await, "210", "{instance}");
        }
        let ran = ran.lock().expect("no activity panics");
        let in_moved = |instance: &String| partitions[instance] == *failing;
        let others = ran.iter().filter(|(instance, _)| !in_moved(instance));
        let last = others.map(|(_, at)| *at).max().expect("all have run");
        let mut first = BTreeMap::new();
        for (instance, at) in ran.iter().filter(|(it, at)| in_moved(it) && *at > moved) {
            first.entry(instance).or_insert(*at);
        }
        let mut found = found.lock().expect("nothing has panicked");
        found.others = last - begun;
        assert!(!fails_over || !first.is_empty(), "the move came too late");
        let resumed = || first.values().map(|at| *at - moved);
        found.resumed = [resumed().min(), resumed().max()].map(Option::unwrap_or_default);
    });
    let run = std::mem::take(&mut *run.lock().expect("nothing has panicked"));
    println!("{:?}, {:?}", run.others, run.resumed);
    run
}

#[test]
fn a_partition_that_fails_over_alone_delays_no_other_work() {
    let without = run_chains(None, Duration::ZERO, false);
    let with = run_chains(None, Duration::ZERO, true);
    let lost = with.others.as_secs_f64() / without.others.as_secs_f64() - 1.0;
    println!("the others lost {:.2} %", lost * 100.0);
    assert!(lost <= 0.01, "{lost}");
    let [_, resumed] = with.resumed;
    assert!(resumed <= Duration::from_secs(2), "{resumed:?}");
}

/// Work goes on after an outage and the failover. Chains whose locks the outage has cost wait until
/// these expire.
fn work_goes_on_after(effect: Effect) {
    let run = run_chains(Some(effect), Duration::from_secs(5), true);
    let [first, _] = run.resumed;
    assert!(first <= Duration::from_secs(2), "{first:?}");
}

#[test]
fn the_work_of_an_unavailable_partition_goes_on_after_its_failover() {
    work_goes_on_after(Effect::error(503, 0));
}

#[test]
fn the_work_of_a_silent_partition_goes_on_after_its_failover() {
    work_goes_on_after(Effect::Silence);
}

/// Starts chains and waits for their ends, `concurrency` at a time. Returns the wrong ones.
async fn wrong_chains(client: &Client, count: u32, concurrency: usize) -> Vec<String> {
    let chains = futures::stream::iter(0..count).map(|number| async move {
        let instance = format!("chain-{number}");
        start(client, &instance, "Chain", "2").await;
        // Each question of `output` is a request.
        sleep(Duration::from_secs(1)).await;
        let output = output(client, &instance).await;
        (output != "3").then_some(instance)
    });
    let ends = chains.buffer_unordered(concurrency);
    ends.filter_map(async |wrong| wrong).collect().await
}

/// Runs chains while partitions fail over one after another, each after a few seconds of silence or
/// unavailability, and return.
fn chains_survive_failovers(count: u32, concurrency: usize) {
    Scenario::run(account(), async move |scenario| {
        let ran = Ran::default();
        let mut nodes = Vec::new();
        for number in 1..=3 {
            nodes.push(scenario.node(number, &settings(&ran)).await);
        }
        let (_, client) = scenario.client().await;
        let emulator = scenario.emulator();
        let mut failovers = 0;
        let failing_over = async {
            for number in 0_u32.. {
                let partition = (number * 7 % PARTITIONS).to_string();
                match number % 3 {
                    0 => sicken(emulator, &partition, Effect::Silence),
                    1 => sicken(emulator, &partition, Effect::error(503, 0)),
                    _ => {}
                }
                sleep(Duration::from_secs(2)).await;
                fail_over(emulator, &partition, EAST);
                sleep(Duration::from_secs(1)).await;
                emulator.clear_faults();
                // Every other one returns.
                if number % 2 == 0 {
                    fail_over(emulator, &partition, WEST);
                }
                failovers = number + 1;
            }
        };
        let wrong = tokio::select! {
            () = failing_over => Vec::new(),
            wrong = wrong_chains(&client, count, concurrency) => wrong,
        };
        println!("{failovers} failovers, {} wrong of {count}", wrong.len());
        let ran = ran.lock().expect("no activity panics").len();
        println!("{ran} activities ran instead of {}", 2 * count);
        assert!(wrong.is_empty() && failovers >= 5, "{failovers}: {wrong:?}");
    });
}

#[test]
fn no_orchestration_is_wrong_while_partitions_fail_over() {
    chains_survive_failovers(100, 7);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p cdb-simulation --test directed -- --ignored --nocapture partitions_fail_over"]
fn none_of_10_000_orchestrations_is_wrong_while_partitions_fail_over() {
    chains_survive_failovers(10_000, 100);
}
