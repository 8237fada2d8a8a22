//! An outage while the body of an activity reads. The chaos run and the simulation have effects on a
//! store that fails, and `messages` has lost answers.

use std::sync::Arc;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::Document as _;
use cdb_provider::{ActivityError, Effects};
use cdb_tests::Backend;
use tokio::sync::Barrier;

use super::{Counter, CounterKey, Env, Runs, Shop, receipt, registry};
use crate::harness::long_locks;

#[tokio::test(start_paused = true)]
async fn an_activity_runs_again_when_a_read_of_its_body_meets_an_outage() {
    let mut env = Env::on(Backend::start_simulated().await).await;
    or_skip!(env.backend.emulator(), "needs the emulator");
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
            tx.add(found.patch().incr(Counter::EFFECTS, 1))?;
            tx.add(receipt("i", text).create())?;
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
