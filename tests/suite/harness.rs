//! Runtimes on one store, like those of an application.

#[macro_use]
#[path = "../support/ok.rs"]
mod ok;
#[macro_use]
#[path = "../support/or_skip.rs"]
mod or_skip;

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

/// A container without document types, with this definition.
macro_rules! untyped {
    (<$(const $file:ident: usize)?> $container:ty, $name:literal, $definition:expr) => {
        impl<$(const $file: usize)?> Container for $container {
            const NAME: &'static str = $name;
            const DISCRIMINATOR: &'static str = "type";
            const PARTITION_KEY: &'static [&'static str] = &["/instanceId"];
            const DOCUMENTS: &'static [&'static DocumentShape] = &[];
            const DEFAULT_TTL: DefaultTtl = DefaultTtl::Off;

            fn decode(discriminator: &str, _: &str) -> Result<Self, DecodeError> {
                Err(DecodeError::UnknownType {
                    container: Self::NAME,
                    discriminator: discriminator.to_owned(),
                })
            }

            fn shape(&self) -> &'static DocumentShape {
                match *self {}
            }

            fn definition() -> ContainerDefinition {
                $definition
            }
        }
    };
}

/// Checks that a text contains these parts.
macro_rules! says {
    ($text:expr, $($part:expr),+) => {
        $(assert!($text.contains($part), "no `{}`: {:?}", $part, $text);)+
    };
}

/// How long a wait lasts without a write to any store of this process.
const STALLED: Duration = Duration::from_secs(180);
/// How long a wait lasts in all: writes may repeat without progress, and on an account they are not
/// counted.
const LIMIT: Duration = Duration::from_secs(1800);
/// How long a single call may take before it counts as hanging.
pub(crate) const PATIENCE: Duration = STALLED;
/// How long a wait of duroxide or of the provider lasts before the test looks for progress.
const LOOK: Duration = Duration::from_secs(5);

/// A wait for something that must happen. It lasts as long as the stores of this process are
/// written to, so it fails if a test hangs, and not on a slow machine.
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

/// Options of a runtime that loses no lock on a slow machine. For tests that do not wait until a
/// lock expires.
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

/// A store, a client, and the runtimes that work on it, each with a provider of its own, like a
/// process.
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

    /// A fresh store without a runtime.
    pub(crate) async fn without_runtime() -> Self {
        Self::with_config(|_| {}).await
    }

    /// A fresh store without a runtime, with changed settings of the providers.
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

    /// Another provider on the store, with changed settings for this provider only.
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

    /// Starts another runtime.
    pub(crate) async fn join(
        &mut self,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) {
        let provider = self.backend.provider().await;
        self.join_with(provider, activities, orchestrations, options)
            .await;
    }

    /// Starts another runtime with this provider.
    pub(crate) async fn join_with(
        &mut self,
        provider: CosmosDBProvider,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) {
        let provider = Arc::new(provider);
        let runtime =
            Runtime::start_with_options(provider, activities, orchestrations, options).await;
        self.runtimes.push(runtime);
    }

    /// Starts an instance.
    pub(crate) async fn begin(
        &self,
        instance: impl Into<String>,
        orchestration: &str,
        input: impl Into<String>,
    ) {
        let started = self
            .client
            .start_orchestration(instance, orchestration, input);
        started.await.expect("the instance starts");
    }

    /// Raises an event for an instance.
    pub(crate) async fn raise(&self, instance: &str, event: &str, data: &str) {
        ok!(self.client.raise_event(instance, event, data));
    }

    /// Starts an instance and waits for its end.
    pub(crate) async fn run(
        &self,
        instance: &str,
        orchestration: &str,
        input: &str,
    ) -> Result<String, ErrorDetails> {
        self.begin(instance, orchestration, input).await;
        self.end_of(instance).await
    }

    /// Returns the output of an instance, or the reason of its failure.
    pub(crate) async fn end_of(&self, instance: &str) -> Result<String, ErrorDetails> {
        match end_of(&self.client, instance).await {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details),
            other => panic!("{instance} has not ended: {other:?}"),
        }
    }

    /// Returns the events of an instance's newest execution.
    pub(crate) async fn history(&self, instance: &str) -> Vec<EventKind> {
        let events = self.provider.read(instance).await.expect("a history");
        events.into_iter().map(|event| event.kind).collect()
    }

    /// Waits for an event in the newest execution of an instance.
    pub(crate) async fn until(&self, instance: &str, happened: impl Fn(&EventKind) -> bool) {
        eventually(async || self.history(instance).await.iter().any(&happened)).await;
    }

    /// Waits until an instance waits for an event, because an earlier event would be dropped.
    pub(crate) async fn until_subscribed(&self, instance: &str, event: &str) {
        self.until(
            instance,
            |kind| matches!(kind, EventKind::ExternalSubscribed { name } if name == event),
        )
        .await;
    }

    /// Kills the runtimes like a crash: no running work may finish.
    pub(crate) async fn kill_runtimes(&mut self) {
        for runtime in self.runtimes.drain(..) {
            runtime.shutdown(Some(0)).await;
        }
    }

    /// Shuts the runtimes down.
    pub(crate) async fn stop(mut self) {
        for runtime in self.runtimes.drain(..) {
            runtime.shutdown(None).await;
        }
        self.backend.stop().await;
    }
}

/// Waits until a condition holds.
pub(crate) async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    until_some(async || holds().await.then_some(())).await;
}

/// Waits until a value is there, and returns it.
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

/// Repeats a wait of the client until it ends with another result than its timeout.
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

/// Waits for the end of an instance for at most this time, which may be simulated. The client's own
/// timeout is of the system's clock.
pub(crate) async fn end_within(
    client: &Client,
    instance: &str,
    limit: Duration,
) -> Result<OrchestrationStatus, ClientError> {
    let ended = client.wait_for_orchestration(instance, Duration::from_secs(86_400));
    let ended = tokio::time::timeout(limit, ended).await;
    ended.unwrap_or(Err(ClientError::Timeout))
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

/// Whether a turn is found within this time. It stays locked.
pub(crate) async fn finds_turn(provider: &impl Provider, lock: Duration, within: Duration) -> bool {
    let fetched = provider.fetch_orchestration_item(lock, within, None).await;
    fetched.expect("fetch").is_some()
}

/// Whether an activity with any tag is found within this time. It stays locked.
pub(crate) async fn finds_activity(
    provider: &impl Provider,
    lock: Duration,
    within: Duration,
) -> bool {
    let found = provider.fetch_work_item(lock, within, None, &TagFilter::Any);
    found.await.expect("fetch").is_some()
}

/// No activities.
pub(crate) fn no_activities() -> ActivityRegistry {
    ActivityRegistry::builder().build()
}
