//! Runtimes that share the slots of one container: by membership, or by a `LeaseProvider`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cdb_provider::coordination::membership::owner_of_slot;
use cdb_provider::documents::dispatch_slot;
use cdb_provider::{
    CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider, LeaseProvider, MemberState,
    MembershipConfig,
};
use cdb_tests::Backend;
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::Instant;

use crate::harness::{end_of, eventually, finds_turn, next_turn};

/// A member counts as dead after three heartbeats, which is longer than a busy machine stalls.
const HEARTBEAT: Duration = Duration::from_secs(2);
const LOCK: Duration = Duration::from_secs(5);

fn member(name: &str) -> MembershipConfig {
    MembershipConfig {
        heartbeat: HEARTBEAT,
        ..MembershipConfig::named(name)
    }
}

/// A runtime whose orchestrations return its name.
async fn start(backend: &Backend, name: &str) -> (CosmosDBProvider, Arc<Runtime>) {
    let provider = backend
        .provider_with(|config| config.membership = Some(member(name)))
        .await;
    let name = name.to_owned();
    let activities = ActivityRegistry::builder()
        .register("Name", move |_: ActivityContext, _: String| {
            let name = name.clone();
            async move { Ok(name) }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Ask", async |ctx: OrchestrationContext, wait: String| {
            let wait = wait.parse().map_err(|_| "no number")?;
            ctx.schedule_timer(Duration::from_millis(wait)).await;
            ctx.schedule_activity("Name", "").await
        })
        .build();
    let options = RuntimeOptions {
        orchestrator_lock_timeout: LOCK,
        worker_lock_timeout: LOCK,
        ..RuntimeOptions::default()
    };
    let store = Arc::new(provider.clone());
    let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    (provider, runtime)
}

/// Waits until each provider sees all members.
pub(crate) async fn until_known(providers: &[&CosmosDBProvider], names: &[&str]) {
    eventually(async || {
        providers.iter().all(|provider| {
            provider
                .members()
                .is_some_and(|view| view.state() == MemberState::Member && view.members() == names)
        })
    })
    .await;
}

async fn ask(client: &Client, instances: &[String], wait: Duration) {
    for instance in instances {
        let wait = wait.as_millis().to_string();
        ok!(client.start_orchestration(instance, "Ask", wait));
    }
}

/// Returns the runtime that ended each instance.
async fn answers(client: &Client, instances: &[String]) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    for instance in instances {
        match end_of(client, instance).await {
            OrchestrationStatus::Completed { output, .. } => {
                answers.insert(instance.clone(), output);
            }
            other => panic!("{instance}: {other:?}"),
        }
    }
    answers
}

fn instances(round: &str) -> Vec<String> {
    (0..40).map(|n| format!("{round}-{n}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_runtimes_share_the_work_and_two_go_on_when_one_is_killed() {
    let backend = Arc::new(Backend::start().await);
    let client = Client::new(Arc::new(backend.provider().await));
    let (first, first_runtime) = start(&backend, "first").await;
    let (second, second_runtime) = start(&backend, "second").await;
    // In a Tokio runtime of its own, which can be killed with all its tasks.
    let (place, killed) = tokio::task::spawn_blocking({
        let backend = backend.clone();
        move || {
            let place = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            let third = place.block_on(start(&backend, "third"));
            (place, third)
        }
    })
    .await
    .expect("it starts");
    let names = ["first", "second", "third"];
    until_known(&[&first, &second, &killed.0], &names).await;

    let shared = instances("shared");
    let asked = Instant::now();
    ask(&client, &shared, Duration::ZERO).await;
    let answers_of_all = answers(&client, &shared).await;
    let by_owner = answers_of_all.iter().filter(|(instance, runtime)| {
        owner_of_slot(&names, u32::from(dispatch_slot(instance))) == Some(&&***runtime)
    });
    // On a machine that stalls for seconds, other runtimes may take overdue items of a slot.
    let (by_owner, took) = (by_owner.count(), asked.elapsed());
    assert!(
        by_owner == shared.len() || took > Duration::from_secs(4),
        "{by_owner} by the owner of their slot, in {took:?}"
    );

    let cut_off = instances("cut-off");
    ask(&client, &cut_off, Duration::from_millis(700)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    place.shutdown_background();
    let after = instances("after");
    ask(&client, &after, Duration::ZERO).await;
    answers(&client, &cut_off).await;
    for (instance, runtime) in answers(&client, &after).await {
        assert_ne!(runtime, "third", "{instance}");
    }
    until_known(&[&first, &second], &["first", "second"]).await;
    drop(killed);

    second_runtime.shutdown(None).await;
    second.leave().await;
    until_known(&[&first], &["first"]).await;
    first_runtime.shutdown(None).await;
    drop((first, second, client));
    if let Some(backend) = Arc::into_inner(backend) {
        backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_member_sends_one_more_request_per_heartbeat() {
    let backend = Backend::start_simulated_with(|config| {
        config.reconciler_interval = Duration::from_secs(30);
        config.membership = Some(member("alone"));
    })
    .await;
    let provider = backend.provider().await;
    until_known(&[&provider], &["alone"]).await;
    let fetch = |time| provider.fetch_orchestration_item(LOCK, time, None);
    // During the first second, the pause between two polls still grows.
    fetch(Duration::from_secs(1)).await.expect("fetch");
    let emulator = or_skip!(backend.emulator(), "only the emulator counts");
    emulator.reset_requests();
    fetch(HEARTBEAT * 6).await.expect("fetch");
    let sent = emulator.requests().data_requests();
    assert!(
        sent <= 13 + 7,
        "{sent} requests in twelve idle seconds of six heartbeats"
    );
    backend.stop().await;
}

fn begin(instance: &str) -> WorkItem {
    crate::work_items::start_of(instance, "Ask")
}

/// A provider that serves every second slot, and an instance in one of the others.
async fn half_and_foreign(backend: &Backend) -> (CosmosDBProvider, String) {
    let share = InMemoryLeaseProvider::share(0, 2);
    let slots = share.slots().await;
    let foreign = (0..100)
        .map(|n| format!("foreign-{n}"))
        .find(|instance| !slots.contains(dispatch_slot(instance)))
        .expect("every second one is");
    let container = backend.provider().await.container().clone();
    let config = CosmosDBProviderConfig {
        leases: Some(Arc::new(share)),
        ..cdb_tests::settings()
    };
    let half = CosmosDBProvider::on(container, &config).await;
    (half.expect("the container opens"), foreign)
}

#[tokio::test(start_paused = true)]
async fn a_runtime_runs_its_own_starts_in_every_slot() {
    let backend = Backend::start_simulated().await;
    let (half, foreign) = half_and_foreign(&backend).await;
    let begun = Instant::now();
    let ((item, ..), ()) = tokio::join!(next_turn(&half, LOCK), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ok!(half.enqueue_for_orchestrator(begin(&foreign), None));
    });
    assert_eq!(item.instance, foreign);
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "it was found before it was due for five seconds"
    );
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn overdue_items_of_a_slot_are_taken_by_any_runtime() {
    let backend = Backend::start_simulated().await;
    let (half, foreign) = half_and_foreign(&backend).await;
    let elsewhere = backend.provider().await;
    ok!(elsewhere.enqueue_for_orchestrator(begin(&foreign), None));
    assert!(
        !finds_turn(&half, LOCK, Duration::from_secs(2)).await,
        "it is another one's"
    );
    let (item, ..) = next_turn(&half, LOCK).await;
    assert_eq!(item.instance, foreign);
    backend.stop().await;
}
