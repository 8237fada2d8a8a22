//! The permits of a limited key: who holds them, what they tell, and what happens without a renewal.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::Document as _;
use cdb_provider::documents::{Holder, LIMITS_PARTITION, Permits, PermitsKey};
use cdb_tests::Backend;
use duroxide::providers::{Provider, TagFilter};
use tokio::time::Instant;

use crate::fair_work::{POLL, enqueue, lock_time, rule, set, tagged, work_off};
use crate::warnings::Warnings;

#[tokio::test(start_paused = true)]
async fn the_permits_of_a_process_that_died_return_at_the_end_of_their_term() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    set(&runtime, rule("tag=bank").running(2)).await;
    let dead = Holder {
        runtime: "dead".to_owned(),
        running: 2,
        wanted: 2,
        until: runtime.container().now() + Duration::from_secs(15),
        ..Holder::default()
    };
    let permits = Permits {
        instance_id: format!("{LIMITS_PARTITION}:tag=bank"),
        key: "tag=bank".to_owned(),
        holders: vec![dead],
        ttl: None,
    };
    runtime
        .container()
        .run(permits.create())
        .await
        .expect("it is new");
    enqueue(&runtime, tagged(1, "bank")).await;
    let begun = Instant::now();
    let seen = work_off(&[&runtime], 1, Duration::ZERO, 1).await;
    assert_eq!(seen.of("bank"), 1);
    let time = begun.elapsed();
    assert!(time >= Duration::from_secs(14), "{time:?}");
    assert!(time <= Duration::from_secs(21), "{time:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_back_once_nothing_needs_them() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    set(&runtime, rule("tag=bank").running(2)).await;
    enqueue(&runtime, tagged(1, "bank")).await;
    work_off(&[&runtime], 1, Duration::from_secs(1), 1).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let key = PermitsKey::new(format!("{LIMITS_PARTITION}:tag=bank"));
    let permits = runtime.container().read(&key).await.expect("a read");
    assert!(permits.is_none(), "{permits:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn permits_tell_what_runs_and_what_waits_since_when() {
    let backend = Backend::start_simulated().await;
    let runtime = backend.provider().await;
    set(&runtime, rule("tag=bank").running(1)).await;
    let before = runtime.container().now();
    for number in 0..3 {
        enqueue(&runtime, tagged(number, "bank")).await;
    }
    let after = runtime.container().now();
    let fetch = || runtime.fetch_work_item(lock_time(), POLL, None, &TagFilter::Any);
    let running = fetch().await.expect("fetch");
    assert!(running.is_some(), "one may run");
    tokio::select! {
        more = fetch() => panic!("{more:?} runs beside it"),
        () = tokio::time::sleep(Duration::from_secs(12)) => {}
    }
    let key = PermitsKey::new(format!("{LIMITS_PARTITION}:tag=bank"));
    let permits = runtime.container().read(&key).await.expect("a read");
    let permits = permits.expect("it was written").document;
    let [holder] = &*permits.holders else {
        panic!("{permits:?}");
    };
    assert_eq!((holder.wanted, holder.waiting), (3, Some(2)));
    let since = holder.waiting_since.expect("two wait");
    assert!((before..=after).contains(&since), "{since} of {before}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_permits_is_one_warning() {
    const OUTAGE: &str = "cannot renew the permits";
    const LONG: Duration = Duration::from_secs(3600);
    let warnings = Warnings::default();
    let _logged = tracing::subscriber::set_default(warnings.clone());
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        return;
    };
    let runtime = backend.provider().await;
    set(&runtime, rule("tag=*").running(1)).await;
    for (number, tag) in [(1, "bank"), (2, "shop")] {
        enqueue(&runtime, tagged(number, tag)).await;
        let fetch = runtime.fetch_work_item(LONG, POLL, None, &TagFilter::Any);
        fetch.await.expect("fetch").expect("an activity");
    }
    for outages in 1..=2 {
        emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Replace));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(warnings.with(OUTAGE).len(), outages);
        emulator.clear_faults();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    backend.stop().await;
}
