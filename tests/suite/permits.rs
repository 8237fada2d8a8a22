//! The permits of a limited key: who holds them, what they tell, and what happens without a renewal.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::LimitedKey;
use cdb_tests::Backend;
use duroxide::providers::{Provider, TagFilter};
use tokio::time::Instant;

use crate::fair_work::{POLL, enqueue, lock_time, rule, set, tagged, work_off};
use crate::network::{ANY, on_network};
use crate::warnings::Warnings;

/// Returns the permits of `tag=bank`.
async fn permits(runtime: &CosmosDBProvider) -> LimitedKey {
    let key = LimitedKey::key_of("tag=bank");
    let used = runtime.container().read(&key).await.expect("a read");
    used.expect("it was written").document
}

#[tokio::test(start_paused = true)]
async fn the_permits_of_a_process_that_died_return_once_its_lease_has_ended() {
    let (backend, network, dead) = or_skip!(on_network().await);
    set(&dead, rule("tag=bank").running(2)).await;
    let fetch = || dead.fetch_work_item(lock_time(), POLL, None, &TagFilter::Any);
    for number in 0..2 {
        enqueue(&dead, tagged(number, "bank")).await;
        fetch().await.expect("fetch").expect("it may run");
    }
    let runtime = backend.provider().await;
    network.swallow(ANY);
    enqueue(&runtime, tagged(2, "bank")).await;
    let begun = Instant::now();
    let seen = work_off(&[&runtime], 1, Duration::ZERO, 3).await;
    assert_eq!(seen.of("bank"), 3);
    let time = begun.elapsed();
    assert!(time >= Duration::from_secs(30), "{time:?}");
    assert!(time <= Duration::from_secs(55), "{time:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_back_once_nothing_needs_them() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    set(&runtime, rule("tag=bank").running(2)).await;
    enqueue(&runtime, tagged(1, "bank")).await;
    work_off(&[&runtime], 1, Duration::from_secs(1), 1).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let used = permits(&runtime).await;
    assert_eq!((used.free, used.running()), (2, 0), "{used:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_holds_permits() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    set(&runtime, rule("tag=bank").running(1)).await;
    for number in 0..3 {
        enqueue(&runtime, tagged(number, "bank")).await;
    }
    let fetch = || runtime.fetch_work_item(lock_time(), POLL, None, &TagFilter::Any);
    let running = fetch().await.expect("fetch");
    assert!(running.is_some(), "one may run");
    tokio::select! {
        more = fetch() => panic!("{more:?} runs beside it"),
        () = tokio::time::sleep(Duration::from_secs(12)) => {}
    }
    let used = permits(&runtime).await;
    assert_eq!((used.cap, used.free, used.running()), (1, 0, 1), "{used:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_permits_is_one_warning() {
    const OUTAGE: &str = "a request about limits has no answer";
    const LONG: Duration = Duration::from_secs(3600);
    let warnings = Warnings::default();
    let _logged = tracing::subscriber::set_default(warnings.clone());
    let backend = Backend::start_simulated().await;
    let emulator = or_skip!(backend.emulator(), "needs the emulator");
    let runtime = backend.provider().await;
    set(&runtime, rule("tag=*").running(1)).await;
    for (number, tag) in [(1, "bank"), (2, "shop")] {
        enqueue(&runtime, tagged(number, tag)).await;
        let fetch = runtime.fetch_work_item(LONG, POLL, None, &TagFilter::Any);
        fetch.await.expect("fetch").expect("an activity");
    }
    for outages in 1..=2 {
        emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Patch));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(warnings.with(OUTAGE).len(), outages);
        emulator.clear_faults();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    backend.stop().await;
}
