//! Runtimes on one store, as an application has them: started, asked, stopped.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::providers::{OrchestrationItem, Provider, SessionFetchConfig, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    Client, ClientError, ErrorDetails, EventKind, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::Instant;

/// How long a wait goes on while nothing is written to any store of this process.
const STALLED: Duration = Duration::from_secs(180);
/// How long a wait goes on in all: something may be written again and again, and on an account writes are not counted.
const LIMIT: Duration = Duration::from_secs(1800);
/// How long a single call may take. None takes that long unless it hangs.
pub(crate) const PATIENCE: Duration = STALLED;
/// How long a wait of duroxide or of the provider lasts before the test looks for progress.
const LOOK: Duration = Duration::from_secs(5);

/// A wait for something that must happen. It lasts as long as the stores of this process are written to, so that it fails on
/// a test that hangs and not on a machine that is slow.
pub(crate) struct Wait {
    begun: Instant,
    looked: Instant,
    progress: (Instant, Option<u64>),
}

impl Wait {
    pub(crate) fn begin() -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            looked: now,
            progress: (now, cdb_tests::writes()),
        }
    }

    /// Whether there was no progress for too long.
    pub(crate) fn is_over(&mut self) -> bool {
        let now = Instant::now();
        if now < self.looked + Duration::from_secs(1) {
            return false;
        }
        self.looked = now;
        let writes = cdb_tests::writes();
        if writes != self.progress.1 {
            self.progress = (now, writes);
        }
        let stalled = writes.is_some() && now > self.progress.0 + STALLED;
        stalled || now > self.begun + LIMIT
    }
}

/// Options of a runtime that loses no lock, however slow the machine is. For tests that wait for the end of none.
pub(crate) fn long_locks() -> RuntimeOptions {
    let hour = Duration::from_secs(3600);
    RuntimeOptions {
        orchestrator_lock_timeout: hour,
        worker_lock_timeout: hour,
        session_lock_timeout: hour,
        session_idle_timeout: hour,
        ..RuntimeOptions::default()
    }
}

/// A store, a client, and the runtimes that work on it, each with a provider of its own as if it were a process.
pub(crate) struct TestEnv {
    pub(crate) client: Client,
    pub(crate) provider: CosmosDBProvider,
    backend: Backend,
    runtimes: Vec<Arc<Runtime>>,
}

impl TestEnv {
    /// A fresh store with one runtime.
    pub(crate) async fn start(
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
    ) -> Self {
        let mut env = Self::without_runtime().await;
        env.join(activities, orchestrations, long_locks()).await;
        env
    }

    /// A fresh store that nobody works on yet.
    pub(crate) async fn without_runtime() -> Self {
        Self::with_config(|_| {}).await
    }

    /// The same, with other settings of the providers.
    pub(crate) async fn with_config(change: impl FnOnce(&mut CosmosDBProviderConfig)) -> Self {
        let backend = Backend::start_with(change).await;
        let provider = backend.provider().await;
        Self {
            client: Client::new(Arc::new(provider.clone())),
            provider,
            backend,
            runtimes: Vec::new(),
        }
    }

    /// A provider beside those of the runtimes, with settings that only this one has.
    pub(crate) async fn provider_with(
        &self,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> CosmosDBProvider {
        self.backend.provider_with(change).await
    }

    /// The emulator, unless the test runs on an account.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        self.backend.emulator()
    }

    /// Splits a physical partition of the store.
    pub(crate) fn split(&self, range: &str) {
        self.backend.split(range);
    }

    /// One more runtime.
    pub(crate) async fn join(
        &mut self,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) {
        let provider = Arc::new(self.backend.provider().await);
        let runtime =
            Runtime::start_with_options(provider, activities, orchestrations, options).await;
        self.runtimes.push(runtime);
    }

    /// Starts an instance and waits for its end.
    pub(crate) async fn run(
        &self,
        instance: &str,
        orchestration: &str,
        input: &str,
    ) -> Result<String, ErrorDetails> {
        self.client
            .start_orchestration(instance, orchestration, input)
            .await
            .expect("the instance starts");
        self.end_of(instance).await
    }

    /// How an instance ended: its output, or why it failed.
    pub(crate) async fn end_of(&self, instance: &str) -> Result<String, ErrorDetails> {
        match end_of(&self.client, instance).await {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details),
            other => panic!("{instance} has not ended: {other:?}"),
        }
    }

    /// What happened in the newest execution of an instance.
    pub(crate) async fn history(&self, instance: &str) -> Vec<EventKind> {
        let events = self.provider.read(instance).await.expect("a history");
        events.into_iter().map(|event| event.kind).collect()
    }

    /// Waits until something has happened in the newest execution of an instance.
    pub(crate) async fn until(&self, instance: &str, happened: impl Fn(&EventKind) -> bool) {
        eventually(async || self.history(instance).await.iter().any(&happened)).await;
    }

    /// Waits until an instance waits for an event: one that comes earlier is nobody's.
    pub(crate) async fn until_subscribed(&self, instance: &str, event: &str) {
        self.until(
            instance,
            |kind| matches!(kind, EventKind::ExternalSubscribed { name } if name == event),
        )
        .await;
    }

    /// Kills the runtimes, as a crash would: nothing that is under way may finish.
    pub(crate) async fn kill_runtimes(&mut self) {
        for runtime in self.runtimes.drain(..) {
            runtime.shutdown(Some(0)).await;
        }
    }

    /// Ends everything.
    pub(crate) async fn stop(mut self) {
        for runtime in self.runtimes.drain(..) {
            runtime.shutdown(None).await;
        }
        self.backend.stop().await;
    }
}

/// Waits until something holds.
pub(crate) async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    until_some(async || holds().await.then_some(())).await;
}

/// Waits until there is something, and returns it.
pub(crate) async fn until_some<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let mut wait = Wait::begin();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(!wait.is_over(), "it never came to hold");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Repeats a wait of the client, which gets its time-out, until it ends otherwise than by that.
pub(crate) async fn patiently<T>(
    mut ask: impl AsyncFnMut(Duration) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut wait = Wait::begin();
    loop {
        match ask(LOOK).await {
            Err(ClientError::Timeout) if !wait.is_over() => {}
            ended => return ended,
        }
    }
}

/// Waits for the end of an instance.
pub(crate) async fn end_of(client: &Client, instance: &str) -> OrchestrationStatus {
    let ended = patiently(async |time| client.wait_for_orchestration(instance, time).await).await;
    ended.unwrap_or_else(|error| panic!("{instance} does not end: {error}"))
}

/// Waits for a turn and locks it. Returns it with its token and attempt.
pub(crate) async fn next_turn(
    provider: &impl Provider,
    lock: Duration,
) -> (OrchestrationItem, String, u32) {
    let mut wait = Wait::begin();
    loop {
        let fetched = provider.fetch_orchestration_item(lock, LOOK, None).await;
        match fetched.expect("fetch") {
            Some(turn) => return turn,
            None => assert!(!wait.is_over(), "there is no turn"),
        }
    }
}

/// Waits for an activity with any tag and locks it. Returns it with its token and attempt.
pub(crate) async fn next_activity(
    provider: &impl Provider,
    lock: Duration,
    session: Option<&SessionFetchConfig>,
) -> (WorkItem, String, u32) {
    let mut wait = Wait::begin();
    loop {
        let fetched = provider.fetch_work_item(lock, LOOK, session, &TagFilter::Any);
        match fetched.await.expect("fetch") {
            Some(activity) => return activity,
            None => assert!(!wait.is_over(), "there is no activity"),
        }
    }
}

/// The message that starts an instance without an input, as a client sends it.
pub(crate) fn start_of(instance: &str, orchestration: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: orchestration.to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// No activities.
pub(crate) fn no_activities() -> ActivityRegistry {
    ActivityRegistry::builder().build()
}
