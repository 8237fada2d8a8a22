//! An instance whose activities run, on the only runtime of a store in simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_emulator::{Emulator, OperationKind};
use cdb_provider::documents::{NEVER, OrchestratorItem, WorkerItem};
use cdb_provider::model::{Query, Stored};
use cdb_provider::{CosmosDBProvider, HandOver};
use cdb_tests::Backend;
use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, ScheduledActivityIdentifier,
    WorkItem,
};
use duroxide::{Event, EventKind};
use tokio::task::JoinHandle;

use crate::harness::{finds_activity, next_activity, next_turn};
use crate::several::turn_with;
use crate::work_items::{activity_of, completion_of, metadata_of, scheduled, start_of, started};

pub(super) const LOCK: Duration = Duration::from_secs(30);

/// Longer than a completion waits for a turn.
pub(super) const TOO_LATE: Duration = Duration::from_millis(25);

/// Shorter than a completion waits at most, and longer than a few requests.
pub(super) const SOON: Duration = Duration::from_millis(12);

pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// The only instance.
pub(super) const INSTANCE: &str = "i";

type Acknowledged = JoinHandle<Result<(), ProviderError>>;
type Turn = (OrchestrationItem, String, u32);

pub(super) struct Stage {
    pub(super) backend: Backend,
    pub(super) provider: CosmosDBProvider,
    /// Another process.
    pub(super) other: CosmosDBProvider,
}

impl Stage {
    /// The instance has scheduled activities with the ids from 2 on. `None` on an account.
    pub(super) async fn with_activities(count: u64) -> Option<Self> {
        Self::with(count, |_| {}).await
    }

    /// Completions wait for as long as they ever do, so that it shows when one does not wait.
    pub(super) async fn patient(count: u64) -> Option<Self> {
        Self::with(count, |config| config.hand_over = HandOver::Always).await
    }

    pub(super) async fn with(
        count: u64,
        change: impl FnOnce(&mut cdb_provider::CosmosDBProviderConfig),
    ) -> Option<Self> {
        // Polls are not what these tests count.
        let backend = Backend::start_in_simulated_time(|config| {
            config.reconciler_interval = LOCK;
            config.hand_over = HandOver::WithSpareDispatchers;
            change(config);
        })
        .await?;
        let provider = backend.provider().await;
        Some(Self::on(backend, provider, count).await)
    }

    /// The same with this provider.
    pub(super) async fn on(backend: Backend, provider: CosmosDBProvider, count: u64) -> Self {
        Self::on_with_input(backend, provider, count, "").await
    }

    /// The same with this input of the activities.
    pub(super) async fn on_with_input(
        backend: Backend,
        provider: CosmosDBProvider,
        count: u64,
        input: &str,
    ) -> Self {
        let other = backend.provider().await;
        let (_, token, _) = turn_with(&provider, start_of(INSTANCE, "Wait"), LOCK).await;
        let scheduled = (2..2 + count).map(|id| (id, scheduled("Work", input)));
        let events = std::iter::once((1, started("Wait", ""))).chain(scheduled);
        let events = events.map(|(id, kind)| event(id, kind)).collect();
        let work = (2..2 + count).map(|id| activity_of(INSTANCE, id, None));
        let metadata = metadata_of("Wait");
        let (work, none) = (work.collect(), Vec::new());
        let committed = provider
            .ack_orchestration_item(&token, 1, events, work, none, metadata, vec![])
            .await;
        committed.expect("the turn is committed");
        Self {
            backend,
            provider,
            other,
        }
    }

    pub(super) fn emulator(&self) -> &Emulator {
        self.backend.emulator().expect("not on an account")
    }

    /// Fetches the next activity, as a worker of the runtime.
    pub(super) async fn activity(&self) -> (u64, String) {
        self.activity_for(LOCK).await
    }

    pub(super) async fn activity_for(&self, lock: Duration) -> (u64, String) {
        let (item, token, _) = next_activity(&self.provider, lock, None).await;
        let WorkItem::ActivityExecute { id, .. } = item else {
            panic!("{item:?}")
        };
        (id, token)
    }

    /// A dispatcher that waits for a turn.
    pub(super) async fn dispatcher(&self) -> JoinHandle<Turn> {
        let provider = self.provider.clone();
        let waits = tokio::spawn(async move { next_turn(&provider, LOCK).await });
        tokio::time::sleep(MOMENT).await;
        waits
    }

    /// Ends an activity.
    pub(super) fn acknowledge(&self, (id, token): (u64, String)) -> Acknowledged {
        let provider = self.provider.clone();
        tokio::spawn(async move {
            let done = completion_of(INSTANCE, id, "done");
            provider.ack_work_item(&token, Some(done)).await
        })
    }

    /// Ends an activity while a dispatcher waits. Returns its acknowledgement, and the turn that takes it.
    pub(super) async fn taken(&self) -> (Acknowledged, Turn) {
        let activity = self.activity().await;
        let turn = self.dispatcher().await;
        let acknowledged = self.acknowledge(activity);
        (acknowledged, turn.await.expect("a turn"))
    }

    /// Starts the instance `new` while a dispatcher waits. Returns the start, and the turn that takes it.
    pub(super) async fn taken_start(&self) -> (Acknowledged, Turn) {
        let turn = self.dispatcher().await;
        let started = self.start("new");
        (started, turn.await.expect("a turn"))
    }

    /// Gives a turn back.
    pub(super) async fn abandon(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignores_attempt: bool,
    ) {
        let abandoned = self
            .provider
            .abandon_orchestration_item(token, delay, ignores_attempt);
        abandoned.await.expect("it is abandoned");
    }

    /// Starts an instance.
    pub(super) fn start(&self, instance: &str) -> Acknowledged {
        let (provider, start) = (self.provider.clone(), start_of(instance, "Wait"));
        tokio::spawn(async move { provider.enqueue_for_orchestrator(start, None).await })
    }

    /// Commits a turn that takes these completions, and cancels an activity.
    pub(super) async fn commit(
        &self,
        (item, token, _): &Turn,
        cancelled: Option<u64>,
    ) -> Result<(), ProviderError> {
        self.commit_with(item, token, "done", cancelled).await
    }

    pub(super) async fn commit_with(
        &self,
        item: &OrchestrationItem,
        token: &str,
        result: &str,
        cancelled: Option<u64>,
    ) -> Result<(), ProviderError> {
        let mut next = item.history.iter().map(Event::event_id).max().unwrap_or(0);
        let events = item.messages.iter().filter_map(|message| {
            let WorkItem::ActivityCompleted { id, .. } = message else {
                return None;
            };
            next += 1;
            let kind = EventKind::ActivityCompleted {
                result: result.to_owned(),
            };
            Some(Event::with_event_id(next, INSTANCE, 1, Some(*id), kind))
        });
        let cancelled = cancelled.map(|activity_id| ScheduledActivityIdentifier {
            instance: INSTANCE.to_owned(),
            execution_id: 1,
            activity_id,
        });
        let (events, cancelled) = (events.collect(), cancelled.into_iter().collect());
        let metadata = ExecutionMetadata::default();
        self.provider
            .ack_orchestration_item(token, 1, events, vec![], vec![], metadata, cancelled)
            .await
    }

    /// Commits a first turn that schedules an activity with this input.
    pub(super) async fn begin(
        &self,
        token: &str,
        instance: &str,
        input: &str,
        work: Vec<WorkItem>,
    ) -> Result<(), ProviderError> {
        begin(&self.provider, token, instance, input, work).await
    }

    /// The messages that the store has, without traces.
    pub(super) async fn messages(&self) -> Vec<Stored<OrchestratorItem>> {
        let query = Query::<OrchestratorItem>::in_partition(INSTANCE);
        let mut found = ok!(self.other.container().query(query).all());
        found.retain(|message| message.document.visible_at < NEVER);
        found
    }

    /// The activities that the store has.
    pub(super) async fn activities(&self) -> usize {
        let query = Query::<WorkerItem>::in_partition(INSTANCE);
        let found = self.other.container().query(query).all();
        found.await.expect("the partition answers").len()
    }

    /// The number of completions in the committed history.
    pub(super) async fn completions(&self) -> usize {
        let events = ok!(self.other.read(INSTANCE));
        let completed = |event: &&Event| matches!(event.kind, EventKind::ActivityCompleted { .. });
        events.iter().filter(completed).count()
    }

    /// Checks how many activities the store has, and how many completions, and stops.
    pub(super) async fn ends_with(self, activities: usize, completions: usize) {
        let left = (self.activities().await, self.completions().await);
        assert_eq!(left, (activities, completions));
        self.backend.stop().await;
    }

    /// The requests of a kind since the last reset.
    pub(super) fn requests(&self, kind: OperationKind) -> u64 {
        let counts = self.emulator().requests().counts;
        counts.get(&kind).copied().unwrap_or_default()
    }

    /// Whether no activity can be fetched now, by another process.
    pub(super) async fn nothing_to_run(&self) -> bool {
        !finds_activity(&self.other, LOCK, Duration::ZERO).await
    }
}

/// As [`Stage::begin`], by any process.
pub(super) async fn begin(
    provider: &CosmosDBProvider,
    token: &str,
    instance: &str,
    input: &str,
    work: Vec<WorkItem>,
) -> Result<(), ProviderError> {
    let kinds = [started("Wait", ""), scheduled("Work", input)];
    let event = |(id, kind)| Event::with_event_id(id, instance, 1, None, kind);
    let (events, metadata) = ((1..).zip(kinds).map(event).collect(), metadata_of("Wait"));
    provider
        .ack_orchestration_item(token, 1, events, work, vec![], metadata, vec![])
        .await
}

fn event(id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, INSTANCE, 1, None, kind)
}

/// How often the committed history of an instance has the completion of each activity.
pub(super) async fn received(reader: &CosmosDBProvider, instance: &str) -> BTreeMap<u64, u64> {
    let mut received = BTreeMap::new();
    for event in reader.read(instance).await.expect("a history") {
        if let (EventKind::ActivityCompleted { .. }, Some(of)) = (event.kind, event.source_event_id)
        {
            *received.entry(of).or_default() += 1;
        }
    }
    received
}

/// Commits a turn that takes the completions among its messages.
pub(super) async fn commit_turn(
    provider: &CosmosDBProvider,
    item: &OrchestrationItem,
    token: &str,
) -> Result<(), ProviderError> {
    let mut next = item.history.iter().map(Event::event_id).max().unwrap_or(0);
    let events = item.messages.iter().filter_map(|message| match message {
        WorkItem::ActivityCompleted { id, result, .. } => {
            next += 1;
            let result = result.clone();
            let kind = EventKind::ActivityCompleted { result };
            Some(Event::with_event_id(next, INSTANCE, 1, Some(*id), kind))
        }
        _ => None,
    });
    let (events, metadata) = (events.collect(), ExecutionMetadata::default());
    provider
        .ack_orchestration_item(token, 1, events, vec![], vec![], metadata, vec![])
        .await
}
