//! A physical partition that answers nothing delays only its own work, even when it belongs to the
//! share of another runtime. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use cdb_provider::{CosmosDBProvider, InMemoryLeaseProvider};
use cdb_tests::Backend;
use duroxide::providers::{Provider as _, SessionFetchConfig, WorkItem};
use tokio::time::Instant;

use crate::harness::{next_activity, next_turn};
use crate::network::Network;
use crate::partitions::{SICK, instances};
use crate::several::{ack, enqueue, start};

const LOCK: Duration = Duration::from_secs(30);

/// The number of physical partitions.
const PARTITIONS: u32 = 8;

/// Opens the runtime with share 0 of `runtimes`, on a network that the test controls. The sick
/// partition belongs to another share. `None` on an account.
async fn runtime(backend: &Backend, network: &Network, runtimes: u32) -> Option<CosmosDBProvider> {
    let whole = network.provider(backend).await?;
    whole.shutdown(Duration::ZERO).await;
    let share = Arc::new(InMemoryLeaseProvider::share(0, runtimes));
    let container = whole.container().clone();
    let opened = CosmosDBProvider::with_leases(container, &cdb_tests::settings(), share).await;
    Some(opened.expect("it opens"))
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
    let Some(backend) = Backend::start_simulated_on(PARTITIONS).await else {
        return;
    };
    let network = Network::default();
    let runtime = runtime(&backend, &network, 2).await;
    let runtime = runtime.expect("not on an account");
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

fn activity(instance: &str, session: Option<&str>) -> WorkItem {
    crate::work_items::activity_of(instance, 2, session)
}

async fn enqueue_activity(provider: &CosmosDBProvider, instance: &str, session: Option<&str>) {
    let enqueued = provider.enqueue_for_worker(activity(instance, session));
    enqueued.await.expect("the activity is stored");
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_delays_only_its_own_activities() {
    let Some(backend) = Backend::start_simulated_on(PARTITIONS).await else {
        return;
    };
    let network = Network::default();
    let runtime = runtime(&backend, &network, 1).await;
    let runtime = runtime.expect("not on an account");
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
    let Some(backend) = Backend::start_simulated_on(PARTITIONS).await else {
        return;
    };
    let network = Network::default();
    let runtime = runtime(&backend, &network, PARTITIONS).await;
    let runtime = runtime.expect("not on an account");
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
    let Some(backend) = Backend::start_simulated_on(PARTITIONS).await else {
        return;
    };
    let network = Network::default();
    let runtime = runtime(&backend, &network, 1).await;
    let runtime = runtime.expect("not on an account");
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
