//! On a store that refuses, loses and repeats requests.

use std::sync::Arc;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::Patch;
use cdb_provider::{ActivityError, Effects};
use cdb_tests::Backend;
use tokio::sync::Barrier;

use super::{Counter, CounterKey, Env, Runs, Shop, act, receipt, registry, short_locks};
use crate::harness::long_locks;

const INSTANCES: usize = 20;
const ACTIVITIES: i64 = 5;

/// Runs activities on two runtimes under faults, and counts their effects.
async fn every_effect_takes_place_once(faults: impl IntoIterator<Item = Fault>) {
    let mut env = Env::start().await;
    if env.backend.emulator().is_none() {
        println!("skipped: only the emulator fails on demand");
        return;
    }
    for _ in 0..2 {
        env.join(short_locks(), |provider, shop| {
            registry(provider, shop, act)
        })
        .await;
    }
    let instances: Vec<String> = (0..INSTANCES).map(|n| format!("many-{n}")).collect();
    for instance in &instances {
        env.create_counter(instance).await;
        let count = ACTIVITIES.to_string();
        let begun = env.client.start_orchestration(instance, "Many", count);
        begun.await.expect("the instance starts");
    }
    let emulator = env.backend.emulator().expect("it was there before");
    for fault in faults {
        emulator.inject(fault);
    }
    for instance in &instances {
        crate::harness::eventually(async || {
            let status = env.client.get_orchestration_status(instance).await;
            matches!(
                status,
                Ok(duroxide::OrchestrationStatus::Completed { .. }
                    | duroxide::OrchestrationStatus::Failed { .. })
            )
        })
        .await;
    }
    emulator.clear_faults();
    for instance in &instances {
        let ended = env.end_of(instance).await;
        assert_eq!(ended.as_deref(), Ok("5"), "{instance}");
        env.has_effects(instance, ACTIVITIES).await;
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_effect_takes_place_once_when_one_request_in_twenty_fails() {
    every_effect_takes_place_once(Fault::in_five_ways(0.05)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_effect_takes_place_once_when_batches_lose_their_answers() {
    let lost = Fault::with_probability(Effect::DropAnswer, 0.33).on(OperationKind::Batch);
    every_effect_takes_place_once([lost]).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_runs_again_when_a_read_of_its_body_meets_an_outage() {
    let mut env = Env::on(Backend::start_simulated().await).await;
    if env.backend.emulator().is_none() {
        println!("skipped: only the emulator fails on demand");
        return;
    }
    env.create_counter("i").await;
    let (runs, steps) = (Runs::default(), Arc::new(Barrier::new(2)));
    let (counted, taken) = (runs.clone(), steps.clone());
    let body = move |_, tx: Effects<Shop>, text: String| {
        let (run, steps) = (counted.next(), taken.clone());
        async move {
            if run == 1 {
                // The outage begins and ends with the read.
                steps.wait().await;
                steps.wait().await;
            }
            let found = tx.read(&CounterKey::new("i")).await;
            if run == 1 {
                steps.wait().await;
            }
            let found = found?.ok_or("there is no counter")?;
            tx.patch_stored(&found, &Patch::new().incr(Counter::EFFECTS, 1))?;
            tx.create(&receipt("i", text))?;
            Ok::<_, ActivityError>(run.to_string())
        }
    };
    env.join(long_locks(), |provider, shop| {
        registry(provider, shop, body)
    })
    .await;
    env.begin("i", "").await;
    let emulator = env.backend.emulator().expect("it was there before");
    steps.wait().await;
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Read));
    steps.wait().await;
    steps.wait().await;
    emulator.clear_faults();
    assert_eq!(env.end_of("i").await.as_deref(), Ok("2"));
    assert_eq!(runs.count(), 2);
    env.has_effects("i", 1).await;
    env.stop().await;
}
