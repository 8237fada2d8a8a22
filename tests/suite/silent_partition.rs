//! A physical partition that answers nothing, throttles or is slow delays only its own work, even when
//! it belongs to the share of another runtime, and its own work goes on. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider};
use cdb_tests::Backend;
use duroxide::providers::{Provider as _, SessionFetchConfig, WorkItem};
use tokio::time::Instant;

use crate::harness::{next_activity, next_turn};
use crate::network::{ANY, Kind, Network, QUERY, READ, WRITE, WRITES};
use crate::partitions::{SICK, instances};
use crate::several::{ack, enqueue, start, try_ack};

const LOCK: Duration = Duration::from_secs(30);

/// The number of physical partitions.
const PARTITIONS: u32 = 8;

/// A store, and the runtime with share 0 of `runtimes` on a network that the test controls. The sick
/// partition belongs to another share. `None` on an account.
async fn opened(runtimes: u32) -> Option<(Backend, Network, CosmosDBProvider)> {
    let backend = Backend::start_simulated_on(PARTITIONS).await?;
    let network = Network::default();
    let whole = network.provider(&backend).await?;
    whole.shutdown(Duration::ZERO).await;
    let share = Arc::new(InMemoryLeaseProvider::share(0, runtimes));
    let container = whole.container().clone();
    let config = CosmosDBProviderConfig {
        leases: Some(share),
        ..cdb_tests::settings()
    };
    let opened = CosmosDBProvider::on(container, &config).await;
    Some((backend, network, opened.expect("it opens")))
}

/// Processes turns until all these instances have one. Returns the time that this took.
async fn until_processed(runtime: &CosmosDBProvider, wanted: &[&str]) -> Duration {
    let begun = Instant::now();
    let mut left = wanted.to_vec();
    while !left.is_empty() {
        let (item, token, _) = next_turn(runtime, LOCK).await;
        ack(runtime, &item, &token).await;
        left.retain(|instance| *instance != item.instance);
    }
    begun.elapsed()
}

fn in_ranges(instances: &[(String, String)], wanted: impl Fn(&str) -> bool) -> Vec<&str> {
    let found = instances.iter().filter(|(_, range)| wanted(range));
    found.map(|(instance, _)| &**instance).collect()
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_of_another_share_delays_only_its_own_instances() {
    let (backend, network, runtime) = or_skip!(opened(2).await);
    let all = instances(&runtime, 40).await;
    // A dispatcher, so that this process handles the instances that it starts.
    enqueue(&runtime, start("first")).await;
    until_processed(&runtime, &["first"]).await;
    for (instance, _) in &all {
        enqueue(&runtime, start(instance)).await;
    }
    network.silence(SICK, &all);
    let sound = in_ranges(&all, |range| range != SICK);
    let took = until_processed(&runtime, &sound).await;
    assert!(took <= Duration::from_secs(6), "processed in {took:?}");
    network.repair();
    until_processed(&runtime, &in_ranges(&all, |range| range == SICK)).await;
    backend.stop().await;
}

/// The service need not tell that the partition is gone: requests that name it get no answer.
#[tokio::test(start_paused = true)]
async fn instances_of_a_silent_partition_go_on_after_its_split() {
    let (backend, network, runtime) = or_skip!(opened(1).await);
    let starter = backend.provider().await;
    let all = instances(&starter, 40).await;
    network.silence(SICK, &[]);
    let (sick, sound): (Vec<_>, Vec<_>) = all.iter().partition(|(_, range)| range == SICK);
    for (instance, _) in sound.iter().chain(&sick) {
        enqueue(&starter, start(instance)).await;
    }
    until_processed(&runtime, &in_ranges(&all, |range| range != SICK)).await;
    let emulator = backend.emulator().expect("not on an account");
    let split = emulator.split("duroxide", runtime.container().name(), SICK);
    split.expect("it is split");
    let took = until_processed(&runtime, &in_ranges(&all, |range| range == SICK)).await;
    assert!(took <= Duration::from_secs(35), "processed in {took:?}");
    backend.stop().await;
}

fn activity(instance: &str, session: Option<&str>) -> WorkItem {
    crate::work_items::activity_of(instance, 2, session)
}

async fn enqueue_activity(provider: &CosmosDBProvider, instance: &str, session: Option<&str>) {
    ok!(provider.enqueue_for_worker(activity(instance, session)));
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_delays_only_its_own_activities() {
    let (backend, network, runtime) = or_skip!(opened(1).await);
    let all = instances(&runtime, 40).await;
    let starter = backend.provider().await;
    for (instance, _) in &all {
        enqueue_activity(&starter, instance, None).await;
    }
    // One poll finds them all.
    next_activity(&runtime, LOCK, None).await;
    network.silence(SICK, &all);
    let sick = in_ranges(&all, |range| range == SICK).len();
    let begun = Instant::now();
    for _ in 1..all.len() - sick {
        next_activity(&runtime, LOCK, None).await;
    }
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(6), "locked in {took:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn overdue_instances_of_other_shares_are_found_while_a_partition_is_silent() {
    let (backend, network, runtime) = or_skip!(opened(PARTITIONS).await);
    let starter = backend.provider().await;
    let all = instances(&starter, 24).await;
    network.silence(SICK, &all);
    for (instance, _) in &all {
        enqueue(&starter, start(instance)).await;
    }
    // The runtimes of the other shares never start.
    let foreign = in_ranges(&all, |range| range != SICK && range != "0");
    assert!(foreign.len() > 12, "{foreign:?}");
    let took = until_processed(&runtime, &foreign).await;
    assert!(took <= Duration::from_secs(20), "found in {took:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_renewed_while_another_partition_is_silent() {
    let (backend, network, runtime) = or_skip!(opened(1).await);
    let all = instances(&runtime, 40).await;
    let session = SessionFetchConfig {
        owner_id: "worker".to_owned(),
        lock_timeout: LOCK,
    };
    let sick = in_ranges(&all, |range| range == SICK)[0];
    let sound = in_ranges(&all, |range| range != SICK)[0];
    for instance in [sick, sound] {
        enqueue_activity(&runtime, instance, Some("s")).await;
        next_activity(&runtime, LOCK, Some(&session)).await;
    }
    network.silence(SICK, &all);
    for round in 0..3 {
        let begun = Instant::now();
        let renewed = runtime
            .renew_session_lock(&["worker"], LOCK, LOCK * 10)
            .await;
        let took = begun.elapsed();
        assert!(matches!(renewed, Ok(1)), "{renewed:?} in round {round}");
        assert!(took <= Duration::from_secs(5), "renewed in {took:?}");
        tokio::time::sleep(LOCK / 3).await;
    }
    network.repair();
    backend.stop().await;
}

/// Starts 80 instances while the sick partition throttles this share of requests of these kinds.
/// Returns the times until all instances elsewhere had their first turn, and then until those of the
/// sick partition had theirs; `None` if that partition recovers first.
async fn throttled_turns(kinds: &[OperationKind], share: f64) -> Option<(Duration, Duration)> {
    let (backend, _network, runtime) = opened(1).await?;
    let starter = backend.provider().await;
    let all = instances(&starter, 80).await;
    for (instance, _) in &all {
        enqueue(&starter, start(instance)).await;
    }
    let throttled = Effect::throttled(Duration::from_millis(50));
    let fault = Fault::with_probability(throttled, share).on_partition(SICK);
    let fault = kinds.iter().fold(fault, |fault, kind| fault.on(*kind));
    let emulator = backend.emulator().expect("not on an account");
    emulator.inject(fault);
    let (sick, sound): (Vec<_>, Vec<_>) = all.iter().partition(|(_, range)| range == SICK);
    assert_eq!((sick.len(), sound.len()), (11, 69));
    let names = |of: &[&(String, String)]| -> Vec<String> {
        of.iter().map(|(instance, _)| instance.clone()).collect()
    };
    let (sick, sound) = (names(&sick), names(&sound));
    let begun = Instant::now();
    let (mut left, mut took) = (sick.len() + sound.len(), Duration::ZERO);
    let mut sound_left = sound.len();
    while left > 0 {
        if share >= 1.0 && sound_left == 0 {
            emulator.clear_faults();
        }
        let (item, token, _) = next_turn(&runtime, LOCK).await;
        // The commit of a throttled turn goes on without its dispatcher.
        let acknowledged = try_ack(&runtime, &item, &token, vec![]).await;
        assert!(acknowledged.is_ok() || sick.contains(&item.instance));
        left -= 1;
        if sound.contains(&item.instance) {
            sound_left -= 1;
            took = begun.elapsed();
        }
    }
    backend.stop().await;
    Some((took, begun.elapsed()))
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_throttles_a_kind_of_requests_delays_only_its_own_instances() {
    let kinds = [WRITES, &[OperationKind::Read], &[OperationKind::Query]];
    for kinds in kinds {
        for share in [1.0, 0.5, 0.9] {
            let (sound, all) = or_skip!(throttled_turns(kinds, share).await);
            println!("{share} of {kinds:?}: others after {sound:?}, all after {all:?}");
            assert!(
                sound <= Duration::from_secs(2),
                "{share} of {kinds:?}: {sound:?}"
            );
            assert!(all <= Duration::from_secs(90), "{kinds:?}: {all:?}");
        }
    }
}

/// Starts 80 instances while answers of the sick partition to requests of this kind take `delay`.
/// Returns the times until all instances elsewhere had their first turn, and until all had.
async fn slow_turns(kind: Kind, delay: Duration) -> Option<(Duration, Duration)> {
    let (backend, network, runtime) = opened(1).await?;
    let starter = backend.provider().await;
    let all = instances(&starter, 80).await;
    for (instance, _) in &all {
        enqueue(&starter, start(instance)).await;
    }
    network.slow_partition(SICK, &all, kind, delay);
    let sound = in_ranges(&all, |range| range != SICK);
    let begun = Instant::now();
    let (mut left, mut took) = (sound.clone(), Duration::ZERO);
    for _ in &all {
        let (item, token, _) = next_turn(&runtime, LOCK).await;
        ack(&runtime, &item, &token).await;
        left.retain(|instance| *instance != item.instance);
        if left.is_empty() && took.is_zero() {
            took = begun.elapsed();
        }
    }
    network.repair();
    backend.stop().await;
    Some((took, begun.elapsed()))
}

#[tokio::test(start_paused = true)]
async fn the_instances_of_a_slow_partition_get_their_turns() {
    let kinds: [(&str, Kind); 4] = [
        ("queries", QUERY),
        ("reads", READ),
        ("writes", WRITE),
        ("all", ANY),
    ];
    for (name, kind) in kinds {
        for ms in [500, 1_500, 3_000, 5_000] {
            let delay = Duration::from_millis(ms);
            let (sound, all) = or_skip!(slow_turns(kind, delay).await);
            println!("{name} take {delay:?}: others after {sound:?}, all after {all:?}");
            // A single dispatcher takes eleven slow turns of at most three slow requests each.
            let most = Duration::from_secs(15) + delay * 36;
            assert!(all <= most, "{name}, {delay:?}: {all:?}");
        }
    }
}
