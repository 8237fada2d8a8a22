//! Runtimes on one store, as an application has them: started, asked, stopped.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, ErrorDetails, EventKind, OrchestrationRegistry, OrchestrationStatus};

/// How long anything may take on a busy machine. Nothing waits that long unless it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);

/// A store, a client, and the runtimes that work on it, each with a provider of its own as if it were a process.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) provider: CosmosDBProvider,
    backend: Backend,
    runtimes: Vec<Arc<Runtime>>,
}

impl World {
    /// A fresh store with one runtime.
    pub(crate) async fn start(
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
    ) -> Self {
        let mut world = Self::without_runtime().await;
        world
            .join(activities, orchestrations, RuntimeOptions::default())
            .await;
        world
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
        let status = self
            .client
            .wait_for_orchestration(instance, PATIENCE)
            .await
            .expect("the instance ends in time");
        match status {
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
pub(crate) async fn eventually<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "it never came to hold");
        tokio::time::sleep(Duration::from_millis(10)).await;
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
