//! Late copies of refused requests double nothing. Time is simulated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_emulator::{Effect, Fault};
use cdb_tests::Backend;
use duroxide::providers::Provider as _;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, EventKind, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use tokio::time::sleep;

use super::network::{Rules, What};
use super::site::defaults;
use crate::harness::end_within;
use crate::network::ANY;

const MS: fn(u64) -> Duration = Duration::from_millis;
const SECOND: Duration = Duration::from_secs(1);

/// How often each activity and each execution has begun.
type Counts = Arc<Mutex<BTreeMap<String, u32>>>;

fn count(counts: &Counts, key: String) {
    let mut counts = counts.lock().expect("no test has panicked");
    *counts.entry(key).or_insert(0) += 1;
}

async fn run(rules: &Rules, backend: &Backend, counts: &Counts) -> Arc<Runtime> {
    let ran = counts.clone();
    let activities = ActivityRegistry::builder()
        .register("Count", move |ctx: ActivityContext, step: String| {
            count(&ran, format!("{} {step}", ctx.instance_id()));
            async { Ok(String::new()) }
        })
        .build();
    let leaf = async |_: OrchestrationContext, _: String| Ok("leaf".to_owned());
    let main = async |ctx: OrchestrationContext, round: String| {
        let mut taken = Vec::new();
        for step in ["a", "b", "c"] {
            ctx.schedule_activity("Count", format!("{round} {step}"))
                .await?;
            taken.push(ctx.dequeue_event("Orders").await);
        }
        ctx.schedule_timer(MS(300)).await;
        ctx.schedule_sub_orchestration("Leaf", "").await?;
        if round == "0" {
            return ctx.continue_as_new("1").await;
        }
        Ok(taken.join(" "))
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Main", main)
        .register("Leaf", leaf)
        .build();
    let provider = Arc::new(rules.provider(backend, defaults).await);
    let options = RuntimeOptions::default();
    Runtime::start_with_options(provider, activities, orchestrations, options).await
}

async fn copied(after: Duration, seed: u64, share: f64, runtimes: u64) -> Vec<String> {
    let Some(backend) = Backend::start_simulated_on(2).await else {
        return vec![];
    };
    let emulator = backend.emulator().expect("not on an account");
    emulator
        .change(|settings| settings.seed(seed))
        .expect("it has a seed");
    let counts = Counts::default();
    let mut networks = Vec::new();
    let mut running = Vec::new();
    for number in 0..runtimes {
        let rules = Rules::seeded(seed + number * 100);
        rules.add_everywhere(ANY, 1.0, What::CopiedWhenRefused(after));
        running.push(run(&rules, &backend, &counts).await);
        networks.push(rules);
    }
    let rules = Rules::seeded(seed + 1_000);
    rules.add_everywhere(ANY, 1.0, What::CopiedWhenRefused(after));
    let client = Client::new(Arc::new(rules.provider(&backend, defaults).await));
    networks.push(rules);
    for effect in [Effect::throttled(MS(20)), Effect::error(503, 0)] {
        emulator.inject(Fault::with_probability(effect, share));
    }
    let ids: Vec<String> = (0..6).map(|number| format!("i-{number}")).collect();
    for id in &ids {
        ok!(client.start_orchestration(&**id, "Main", "0"));
    }
    for number in 0..6 {
        for id in &ids {
            ok!(client.enqueue_event(&**id, "Orders", number.to_string()));
        }
        sleep(MS(400)).await;
    }
    let mut wrong = Vec::new();
    for id in &ids {
        match end_within(&client, id, SECOND * 300).await {
            Ok(OrchestrationStatus::Completed { output, .. }) if output == "3 4 5" => {}
            other => wrong.push(format!("{id}: {other:?}")),
        }
    }
    // All copies have arrived.
    sleep(after + SECOND * 10).await;
    emulator.clear_faults();
    wrong.extend(doubled(&backend, &ids, &counts).await);
    let copies: usize = networks.iter().map(Rules::copied).sum();
    println!("{after:?}, seed {seed}, {share}, {runtimes} runtimes, {copies} copies: {wrong:?}");
    for runtime in running {
        runtime.shutdown(Some(0)).await;
    }
    backend.stop().await;
    wrong
}

/// Returns what has happened more than once, or never.
async fn doubled(backend: &Backend, ids: &[String], counts: &Counts) -> Vec<String> {
    let mut wrong = Vec::new();
    let reader = backend.provider_with(defaults).await;
    for id in ids {
        for execution in [1, 2] {
            let history = ok!(reader.read_with_execution(id, execution));
            let of =
                |is: fn(&EventKind) -> bool| history.iter().filter(|event| is(&event.kind)).count();
            let found = [
                of(|kind| matches!(kind, EventKind::OrchestrationStarted { .. })),
                of(|kind| matches!(kind, EventKind::ActivityCompleted { .. })),
                of(|kind| matches!(kind, EventKind::SubOrchestrationCompleted { .. })),
                of(|kind| matches!(kind, EventKind::TimerFired { .. })),
            ];
            if found != [1, 3, 1, 1] {
                wrong.push(format!("{id}, execution {execution}: {found:?}"));
            }
        }
    }
    let counts = counts.lock().expect("no test has panicked").clone();
    if counts.len() != 36 || counts.values().any(|count| *count != 1) {
        wrong.push(format!("{counts:?}"));
    }
    wrong
}

#[tokio::test(start_paused = true)]
async fn late_copies_of_refused_requests_double_nothing() {
    let mut wrong = Vec::new();
    for after in [5, 300, 3_000, 40_000] {
        for (seed, runtimes) in [(1, 1), (2, 2)] {
            wrong.extend(copied(MS(after), seed, 0.15, runtimes).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
