//! A member that removes a failed one releases its locks. Time is simulated, and locks last
//! minutes.

use std::time::Duration;

use cdb_provider::documents::{Durable, Instance, WorkerItem};
use cdb_provider::model::Query;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, MemberState, MembershipConfig};
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, TagFilter, WorkItem};
use tokio::time::Instant;

use crate::harness::{eventually, finds_turn, next_activity, next_turn};
use crate::locks::{activity, completed, is_lost};
use crate::members::until_known;
use crate::network::{ANY, Network, on_network};
use crate::partitions::{SICK, instances};
use crate::several::{ack, run_turn, start, turn_with};

const LOCK: Duration = Duration::from_secs(300);
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The time until a failed member is removed, and the promised time until its work goes on.
const DETECTION: Duration = HEARTBEAT.saturating_mul(3);
const TAKEOVER: Duration = Duration::from_secs(2);

/// Long enough for a removal and a takeover, and shorter than a request may take.
const PAUSE: Duration = Duration::from_secs(5);

/// A member whose network the test controls, and another member.
struct Members {
    backend: Backend,
    failing: CosmosDBProvider,
    survivor: CosmosDBProvider,
    network: Network,
}

impl Members {
    /// `None` on an account, whose network is not the test's.
    async fn start(partitions: u32) -> Option<Self> {
        let backend = Backend::start_simulated_on(partitions).await?;
        let network = Network::default();
        let named = |name| move |config: &mut _| set_member(config, name);
        let failing = network.provider_with(&backend, named("failing")).await?;
        let survivor = backend.provider_with(named("survivor")).await;
        until_known(&[&failing, &survivor], &["failing", "survivor"]).await;
        Some(Self {
            backend,
            failing,
            survivor,
            network,
        })
    }

    async fn stored<T: Clone>(&self, wanted: impl Fn(Durable) -> Option<T>) -> Vec<T> {
        let all = Query::<Durable>::across_partitions();
        let found = self.survivor.container().query(all).all().await;
        let found = found.expect("the container can be read").into_iter();
        found.filter_map(|stored| wanted(stored.document)).collect()
    }

    async fn activities(&self) -> Vec<WorkerItem> {
        self.stored(|document| match document {
            Durable::WorkerItem(item) if item.instance_id == "shared" => Some(item),
            _ => None,
        })
        .await
    }

    async fn instances(&self) -> Vec<Instance> {
        self.stored(|document| match document {
            Durable::Instance(instance) if instance.instance_id == "turn" => Some(instance),
            _ => None,
        })
        .await
    }
}

fn set_member(config: &mut CosmosDBProviderConfig, name: &str) {
    config.membership = Some(MembershipConfig {
        heartbeat: HEARTBEAT,
        ..MembershipConfig::named(name)
    });
}

/// Locks a turn of `instance`.
async fn lock_turn(provider: &CosmosDBProvider, instance: &str) -> String {
    let (item, token, _) = turn_with(provider, start(instance), LOCK).await;
    assert_eq!(item.instance, instance);
    token
}

/// Locks the activity of the instance `shared`.
async fn lock_activity(provider: &CosmosDBProvider) -> String {
    ok!(provider.enqueue_for_worker(activity()));
    next_activity(provider, LOCK, None).await.1
}

/// Commits a turn without events.
async fn commit(provider: &CosmosDBProvider, token: &str) -> Result<(), ProviderError> {
    let empty = ExecutionMetadata::default();
    provider
        .ack_orchestration_item(token, 1, vec![], vec![], vec![], empty, vec![])
        .await
}

async fn a_killed_member_does_not_delay_its_work(partitions: u32) {
    let members = or_skip!(Members::start(partitions).await);
    let (failing, survivor) = (&members.failing, &members.survivor);
    let instances: Vec<String> = (0..5).map(|n| format!("turn-{n}")).collect();
    for instance in &instances {
        lock_turn(failing, instance).await;
    }
    lock_activity(failing).await;
    let (own, own_token, _) = turn_with(survivor, start("own"), LOCK).await;

    members.network.swallow(ANY);
    let killed_at = Instant::now();
    let turns = async {
        let mut found = Vec::new();
        while found.len() < instances.len() {
            let (item, token, attempt) = next_turn(survivor, LOCK).await;
            assert_eq!(attempt, 2, "the crashed turn is an attempt");
            ack(survivor, &item, &token).await;
            found.push(item.instance);
        }
        found.sort();
        found
    };
    let (found, (_, token, attempt)) = tokio::join!(turns, next_activity(survivor, LOCK, None));
    let took = killed_at.elapsed();
    assert!(took <= DETECTION + TAKEOVER, "{took:?}");
    assert_eq!((found, attempt), (instances, 2));
    let ended = survivor.ack_work_item(&token, Some(completed("survivor")));
    ended.await.expect("the survivor holds the activity");
    // Its own locks stay.
    ack(survivor, &own, &own_token).await;
    members.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_members_work_goes_on_within_two_seconds_of_its_removal() {
    a_killed_member_does_not_delay_its_work(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_members_work_goes_on_in_all_physical_partitions() {
    a_killed_member_does_not_delay_its_work(4).await;
}

#[tokio::test(start_paused = true)]
async fn locks_are_taken_over_while_another_partition_is_silent() {
    let backend = or_skip!(Backend::start_simulated_on(8).await);
    let (gone, network) = (Network::default(), Network::default());
    let member = |name| move |config: &mut _| set_member(config, name);
    let failing = gone.provider_with(&backend, member("failing")).await;
    let failing = failing.expect("not on an account");
    let survivor = network.provider_with(&backend, member("survivor")).await;
    let survivor = survivor.expect("not on an account");
    until_known(&[&failing, &survivor], &["failing", "survivor"]).await;
    let all = instances(&failing, 20).await;
    let sound = all.iter().find(|(_, range)| range != SICK);
    let (instance, _) = sound.expect("there are sound partitions");
    lock_turn(&failing, instance).await;
    network.silence(SICK, &all);
    gone.swallow(ANY);
    let killed_at = Instant::now();
    let (item, token, attempt) = next_turn(&survivor, LOCK).await;
    let took = killed_at.elapsed();
    // The search waits a second for the silent partition.
    let waits = Duration::from_secs(1);
    assert!(took <= DETECTION + TAKEOVER + waits, "{took:?}");
    assert_eq!((&item.instance, attempt), (instance, 2));
    ack(&survivor, &item, &token).await;
    backend.stop().await;
}

/// Pauses a member for this time while it commits a turn and ends an activity. Returns the answers.
async fn commits_after_a_pause(pause: Duration) -> Option<[Result<(), ProviderError>; 2]> {
    let members = Members::start(1).await?;
    let (paused, survivor) = (&members.failing, &members.survivor);
    let turn = lock_turn(paused, "turn").await;
    let work = lock_activity(paused).await;
    // The commits of the paused process arrive after the survivor's.
    members.network.stall_at(ANY, pause);
    let (late_turn, late_work, ()) = tokio::join!(
        commit(paused, &turn),
        paused.ack_work_item(&work, Some(completed("paused"))),
        async {
            run_turn(survivor, LOCK).await;
            let (_, token, _) = next_activity(survivor, LOCK, None).await;
            let ended = survivor.ack_work_item(&token, Some(completed("survivor")));
            ended.await.expect("the survivor holds the activity");
        }
    );
    let history = survivor.read("turn").await.expect("a history");
    assert_eq!(history.len(), 1, "the survivor's");
    let (item, ..) = turn_with(survivor, start("shared"), LOCK).await;
    let is_completion = |message: &&WorkItem| matches!(message, WorkItem::ActivityCompleted { .. });
    let results: Vec<&WorkItem> = item.messages.iter().filter(is_completion).collect();
    assert_eq!(results, [&completed("survivor")]);
    // It rejoins, and its new locks are its own.
    members.network.repair();
    eventually(async || {
        let view = paused.members().expect("membership is on");
        view.state() == MemberState::Member && view.members().len() == 2
    })
    .await;
    let turn = lock_turn(paused, "after").await;
    commit(paused, &turn).await.expect("it holds the lock");
    members.backend.stop().await;
    Some([late_turn, late_work])
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_removed_by_mistake_commits_nothing() {
    if let Some(late) = commits_after_a_pause(PAUSE).await {
        assert!(late.iter().all(is_lost), "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_paused_for_longer_than_its_requests_last_doubles_nothing() {
    if let Some([late_turn, _]) = commits_after_a_pause(Duration::from_secs(120)).await {
        assert!(late_turn.is_err(), "{late_turn:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_lock_cannot_be_committed_or_renewed_before_another_takes_it() {
    let members = or_skip!(Members::start(1).await);
    let paused = &members.failing;
    let turn = lock_turn(paused, "turn").await;
    let work = lock_activity(paused).await;
    members.network.stall_at(ANY, PAUSE);
    let results = tokio::join!(
        paused.renew_orchestration_item_lock(&turn, LOCK),
        paused.renew_work_item_lock(&work, LOCK),
    );
    assert!(is_lost(&results.0), "{results:?}");
    assert!(is_lost(&results.1), "{results:?}");
    let late = commit(paused, &turn).await;
    assert!(is_lost(&late), "{late:?}");
    let instances = members.instances().await;
    let attempts: u32 = instances[0].attempts.values().sum();
    assert_eq!((&instances[0].lock_token, attempts), (&None, 1));
    let activities = members.activities().await;
    assert_eq!(
        (&activities[0].lock_token, activities[0].attempt_count),
        (&None, 1)
    );
    members.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_locks_of_a_member_that_left_are_kept() {
    let members = or_skip!(Members::start(1).await);
    let turn = lock_turn(&members.failing, "turn").await;
    members.failing.leave().await;
    assert!(!finds_turn(&members.survivor, LOCK, DETECTION * 3).await);
    let committed = commit(&members.failing, &turn).await;
    committed.expect("it still holds the lock");
    members.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_membership_the_locks_of_a_killed_runtime_are_kept() {
    let (backend, network, killed) = or_skip!(on_network().await);
    let other = backend.provider().await;
    let token = lock_turn(&killed, "turn").await;
    uuid::Uuid::try_parse(&token).expect("the token names no member");
    lock_activity(&killed).await;
    network.swallow(ANY);
    let long = Duration::from_secs(60);
    let (turn, work) = tokio::join!(
        other.fetch_orchestration_item(LOCK, long, None),
        other.fetch_work_item(LOCK, long, None, &TagFilter::Any)
    );
    assert!(turn.expect("fetch").is_none() && work.expect("fetch").is_none());
    backend.stop().await;
}
