//! Held instances: a deployment whose code does not replay them, or does not know them, fails none, and
//! a rollback continues all. Time is simulated.

mod cancelled;
mod continued;
mod failures;
mod load;
mod messages;
mod repair;
mod rollback;

use std::sync::Arc;
use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{Instance, InstanceKey};
use cdb_tests::Backend;
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, ErrorDetails, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// The longest backoff of a held instance.
const BACKOFF: Duration = Duration::from_secs(60);

/// The time after which a process without knowledge has found what is due: a poll of another's share.
const FOUND: Duration = Duration::from_secs(15);

/// Longer than all attempts of duroxide at an orchestration that is not registered.
const LONG: Duration = Duration::from_secs(400);

/// The code of a deployment.
#[derive(Clone, Copy)]
enum Code {
    Old,
    /// It reserves before it charges.
    Changed,
    /// It knows no orchestration.
    Empty,
}

impl Code {
    fn orchestrations(self) -> OrchestrationRegistry {
        let registry = OrchestrationRegistry::builder();
        if matches!(self, Self::Empty) {
            return registry.build();
        }
        let registry = registry.register("Gather", go_on);
        let registry = match self {
            Self::Changed => registry.register_versioned("Gather", "2.0.0", gather),
            _ => registry,
        };
        registry
            .register(
                "Order",
                move |ctx: OrchestrationContext, cents: String| async move {
                    if matches!(self, Self::Changed) {
                        ctx.schedule_activity("Step", "reserve").await?;
                    }
                    ctx.schedule_activity("Step", format!("charge {cents}"))
                        .await?;
                    let ship = ctx.schedule_wait("ship").await;
                    ctx.schedule_activity("Step", ship).await
                },
            )
            .register("Quick", |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_activity("Step", "quick").await
            })
            .register(
                "Approval",
                move |ctx: OrchestrationContext, _: String| async move {
                    let what = if matches!(self, Self::Changed) {
                        "reserve"
                    } else {
                        "charge"
                    };
                    ctx.schedule_activity("Step", what).await?;
                    let mut taken = Vec::new();
                    for _ in 0..3 {
                        taken.push(ctx.dequeue_event("approvals").await);
                    }
                    Ok(taken.join(" "))
                },
            )
            .register(
                "Parent",
                move |ctx: OrchestrationContext, _: String| async move {
                    ctx.schedule_sub_orchestration_with_id("Order", "child", "5")
                        .await
                },
            )
            .build()
    }
}

/// Continues with another version.
async fn go_on(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_wait("Go").await;
    ctx.continue_as_new_versioned("2.0.0", "").await
}

async fn gather(ctx: OrchestrationContext, taken: String) -> Result<String, String> {
    let next = ctx.dequeue_event("approvals").await;
    let all = format!("{taken}{next} ");
    if next == "last" {
        return Ok(all);
    }
    ctx.continue_as_new_versioned("2.0.0", all).await
}

/// A store, and a client that takes no work.
struct Shop {
    backend: Backend,
    provider: CosmosDBProvider,
    client: Client,
}

/// A process with a runtime and a provider of its own.
struct Process {
    provider: CosmosDBProvider,
    runtime: Arc<Runtime>,
}

impl Process {
    async fn stop(self) {
        self.runtime.shutdown(Some(1_000)).await;
        self.provider.shutdown(SECOND).await;
    }
}

impl Shop {
    async fn open() -> Self {
        let backend = Backend::start_simulated().await;
        let provider = backend.provider().await;
        Self {
            client: Client::new(Arc::new(provider.clone())),
            backend,
            provider,
        }
    }

    async fn deploy(&self, code: Code) -> Process {
        let provider = self.backend.provider().await;
        run(provider, code).await
    }

    /// Starts an order, and waits until it waits for its shipment.
    async fn order(&self, id: &str) {
        self.begin(id, "Order").await;
        self.until_charged(id).await;
    }

    async fn begin(&self, id: &str, orchestration: &str) {
        ok!(self.client.start_orchestration(id, orchestration, "5"));
    }

    async fn until_charged(&self, id: &str) {
        let mut wait = crate::harness::Wait::begin();
        while self.events(id).await < 4 {
            assert!(!wait.is_over(), "{id} is never charged");
            sleep(SECOND / 10).await;
        }
    }

    /// Waits until the activity of an order has been scheduled.
    async fn until_activity(&self, id: &str) {
        let mut wait = crate::harness::Wait::begin();
        while self.events(id).await < 2 {
            assert!(!wait.is_over(), "{id} never begins");
            sleep(SECOND / 100).await;
        }
    }

    /// Returns the number of events of an instance.
    async fn events(&self, id: &str) -> usize {
        self.provider.read(id).await.expect("a history").len()
    }

    async fn ship(&self, id: &str) {
        let raised = self.client.raise_event(id, "ship", format!("ship {id}"));
        raised.await.expect("it is raised");
    }

    async fn instance(&self, id: &str) -> Instance {
        let key = InstanceKey::new(id);
        let found = self.provider.container().read(&key).await;
        found.expect("it is read").expect("it exists").document
    }

    async fn until_held(&self, id: &str) -> Instance {
        let mut wait = crate::harness::Wait::begin();
        loop {
            let found = self.provider.container().read(&InstanceKey::new(id)).await;
            if let Some(found) = found.expect("it is read")
                && found.document.held.is_some()
            {
                return found.document;
            }
            assert!(!wait.is_over(), "{id} is never held");
            sleep(SECOND / 10).await;
        }
    }

    async fn status(&self, id: &str) -> OrchestrationStatus {
        let status = self.client.get_orchestration_status(id).await;
        status.expect("a status")
    }

    /// Waits for the end of an instance, at most this long.
    async fn end_within(&self, id: &str, time: Duration) -> Result<String, ErrorDetails> {
        let ended = crate::harness::end_within(&self.client, id, time).await;
        match ended.unwrap_or_else(|error| panic!("{id} does not end in time: {error}")) {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details),
            other => panic!("{id} has not ended: {other:?}"),
        }
    }
}

async fn run(provider: CosmosDBProvider, code: Code) -> Process {
    let shared = Arc::new(provider.clone());
    let step = |_: ActivityContext, what: String| async move {
        sleep(SECOND / 10).await;
        Ok(what)
    };
    let activities = ActivityRegistry::builder().register("Step", step).build();
    let options = RuntimeOptions::default();
    let runtime =
        Runtime::start_with_options(shared, activities, code.orchestrations(), options).await;
    Process { provider, runtime }
}
