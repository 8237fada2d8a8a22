//! An adversarial tester's attempts: mechanisms that meet in the middle. Time is simulated.

mod frozen;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::sleep;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A store with one runtime.
pub(super) struct Site {
    pub(super) backend: Backend,
    pub(super) provider: CosmosDBProvider,
    pub(super) client: Client,
    runtime: Arc<Runtime>,
    pub(super) is_broken: Arc<AtomicBool>,
    pub(super) began: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub(super) async fn open() -> Self {
        let backend = Backend::start_simulated_with(|config| {
            config.reconciler_interval = SECOND * 5;
            config.reconciler_age_threshold = SECOND * 2;
        })
        .await;
        let provider = backend.provider().await;
        let is_broken = Arc::new(AtomicBool::new(true));
        let began = Arc::default();
        let runtime = Runtime::start_with_options(
            Arc::new(backend.provider().await),
            activities(&is_broken, &began),
            orchestrations(),
            RuntimeOptions::default(),
        )
        .await;
        Self {
            client: Client::new(Arc::new(provider.clone())),
            backend,
            provider,
            runtime,
            is_broken,
            began,
        }
    }

    pub(super) async fn begin(&self, id: &str, orchestration: &str, input: &str) {
        let begun = self.client.start_orchestration(id, orchestration, input);
        begun.await.expect("it is started");
    }

    pub(super) fn repair(&self) {
        self.is_broken.store(false, Ordering::Relaxed);
    }

    pub(super) fn began(&self) -> Vec<String> {
        self.began.lock().expect("no panic").clone()
    }

    /// Returns how an instance ends within a time.
    pub(super) async fn end(&self, id: &str, time: Duration) -> String {
        match self.client.wait_for_orchestration(id, time).await {
            Ok(OrchestrationStatus::Completed { output, .. }) => output,
            other => format!("{other:?}"),
        }
    }

    pub(super) async fn status(&self, id: &str) -> OrchestrationStatus {
        let status = self.client.get_orchestration_status(id).await;
        status.expect("a status")
    }

    pub(super) async fn close(self) {
        self.runtime.shutdown(None).await;
        self.backend.stop().await;
    }
}

/// `Step` takes the seconds of its input. `Break` fails while the site is broken.
fn activities(is_broken: &Arc<AtomicBool>, began: &Arc<Mutex<Vec<String>>>) -> ActivityRegistry {
    let is_broken = is_broken.clone();
    let (steps, breaks) = (began.clone(), began.clone());
    ActivityRegistry::builder()
        .register("Step", move |_: ActivityContext, seconds: String| {
            steps.lock().expect("no panic").push(seconds.clone());
            async move {
                sleep(SECOND * seconds.parse().expect("a number")).await;
                Ok(seconds)
            }
        })
        .register("Break", move |_: ActivityContext, input: String| {
            breaks.lock().expect("no panic").push(input.clone());
            let fails = is_broken.load(Ordering::Relaxed);
            async move {
                sleep(SECOND * 5).await;
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
            "Stepper",
            |ctx: OrchestrationContext, seconds: String| async move {
                ctx.schedule_activity("Step", seconds).await
            },
        )
        .register(
            "TakeFail",
            |ctx: OrchestrationContext, _: String| async move {
                let mut taken = Vec::new();
                for _ in 0..2 {
                    taken.push(ctx.dequeue_event("Orders").await);
                }
                ctx.schedule_activity("Break", "b").await?;
                loop {
                    let event = ctx.dequeue_event("Orders").await;
                    if event == "last" {
                        return Ok(taken.join(" "));
                    }
                    taken.push(event);
                }
            },
        )
        .build()
}
