//! A store with one runtime, and a process of its own for an operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::sleep;

use crate::harness::end_within;
use crate::network::{ANY, Network};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// How long the operator stands still: shorter than the deadline of a request, so that it goes on.
pub(super) const FROZEN: Duration = Duration::from_secs(24);

/// When the others act meanwhile.
pub(super) const ACT: Duration = Duration::from_secs(3);

pub(super) struct Site {
    backend: Backend,
    pub(super) provider: CosmosDBProvider,
    pub(super) operator: CosmosDBProvider,
    network: Network,
    client: Client,
    runtime: Arc<Runtime>,
    is_broken: Arc<AtomicBool>,
}

impl Site {
    /// Opens a store. `None` on an account, whose time is not simulated.
    pub(super) async fn open() -> Option<Self> {
        let backend = Backend::start_simulated_with(|config| {
            config.reconciler_interval = SECOND * 5;
            config.reconciler_age_threshold = SECOND * 2;
        })
        .await;
        let network = Network::default();
        let operator = network.provider(&backend).await?;
        let provider = backend.provider().await;
        let is_broken = Arc::new(AtomicBool::new(true));
        let runtime = Runtime::start_with_options(
            Arc::new(backend.provider().await),
            activities(&is_broken),
            orchestrations(),
            RuntimeOptions::default(),
        )
        .await;
        Some(Self {
            client: Client::new(Arc::new(provider.clone())),
            backend,
            provider,
            operator,
            network,
            runtime,
            is_broken,
        })
    }

    /// Runs a call of the operator, whose process stands still when it gets its next answer after this
    /// many. `others` act meanwhile. Returns `None` if the call has ended before.
    pub(super) async fn while_frozen<T, U>(
        &self,
        answers: usize,
        call: impl Future<Output = T>,
        others: impl Future<Output = U>,
    ) -> Option<(T, U)> {
        let (call, others) = (Box::pin(call), Box::pin(others));
        self.network.freeze_after(answers, ANY, FROZEN);
        let others = async {
            sleep(ACT).await;
            if self.network.has_stalled() {
                Some(others.await)
            } else {
                None
            }
        };
        let (ended, others) = tokio::join!(self.network.process(call), others);
        self.network.repair();
        Some((ended, others?))
    }

    pub(super) async fn begin(&self, id: &str, orchestration: &str, input: &str) {
        ok!(self.client.start_orchestration(id, orchestration, input));
    }

    pub(super) async fn raise(&self, id: &str) {
        ok!(self.client.raise_event(id, "go", ""));
    }

    /// Lets `Break` succeed.
    pub(super) fn repair(&self) {
        self.is_broken.store(false, Ordering::Relaxed);
    }

    /// Returns how an instance ends.
    pub(super) async fn end(&self, id: &str) -> String {
        match end_within(&self.client, id, SECOND * 90).await {
            Ok(OrchestrationStatus::Completed { output, .. }) => output,
            other => format!("{other:?}"),
        }
    }

    pub(super) async fn stop_runtime(&self) {
        self.runtime.clone().shutdown(None).await;
    }

    pub(super) async fn close(self) {
        self.runtime.shutdown(None).await;
        self.backend.stop().await;
    }
}

/// `Break` fails while the site is broken.
fn activities(is_broken: &Arc<AtomicBool>) -> ActivityRegistry {
    let is_broken = is_broken.clone();
    ActivityRegistry::builder()
        .register("Break", move |_: ActivityContext, input: String| {
            let fails = is_broken.load(Ordering::Relaxed);
            async move {
                if fails {
                    Err("broken".to_owned())
                } else {
                    Ok(input)
                }
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Waiter",
            async |ctx: OrchestrationContext, input: String| {
                ctx.schedule_wait("go").await;
                Ok(input)
            },
        )
        .register("Above", async |ctx: OrchestrationContext, input: String| {
            ctx.schedule_sub_orchestration_with_id("Waiter", "below", input)
                .await
        })
        .register(
            "Fragile",
            async |ctx: OrchestrationContext, input: String| {
                ctx.schedule_activity("Break", &*input).await?;
                ctx.schedule_wait("go").await;
                Ok(input)
            },
        )
        .register(
            "AboveFragile",
            async |ctx: OrchestrationContext, input: String| {
                ctx.schedule_sub_orchestration_with_id("Fragile", "below", input)
                    .await
            },
        )
        .register("Again", async |ctx: OrchestrationContext, input: String| {
            let left: u32 = input.parse().expect("a number");
            if left == 0 {
                ctx.schedule_wait("go").await;
                return Ok("done".to_owned());
            }
            ctx.continue_as_new((left - 1).to_string()).await
        })
        .build()
}
