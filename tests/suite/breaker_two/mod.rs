//! An adversarial tester's attempts: mechanisms that meet in the middle. Time is simulated.

mod frozen;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use cdb_client::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::sleep;

pub(super) const SECOND: Duration = Duration::from_secs(1);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Counts the requests of a frozen process.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Arc<AtomicUsize>);

#[derive(Debug)]
struct Counted(Requests, SimulatedTime);

#[async_trait]
impl Transport for Counted {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if INSIDE.get() {
            self.0.0.fetch_add(1, Ordering::Relaxed);
        }
        self.1.send(request).await
    }
}

impl Requests {
    pub(super) async fn provider(&self, backend: &Backend) -> CosmosDBProvider {
        let own = self.clone();
        let opened = backend.provider_through(|_| {}, |time| Counted(own, time));
        opened.await.expect("the emulator")
    }

    /// Runs a call of a process that stands still for a time after this many requests: the request
    /// has arrived and is answered, and the process does not see the answer before it goes on. Returns
    /// whether it stood still.
    pub(super) async fn freeze<F: Future>(
        &self,
        after: usize,
        time: Duration,
        call: F,
    ) -> (F::Output, bool) {
        let mut call = pin!(call);
        let begun = self.0.load(Ordering::Relaxed);
        let mut may_freeze = true;
        loop {
            let polled = poll_fn(|cx| {
                if may_freeze && self.0.load(Ordering::Relaxed) > begun + after {
                    return Poll::Ready(None);
                }
                INSIDE.set(true);
                let polled = call.as_mut().poll(cx);
                INSIDE.set(false);
                polled.map(Some)
            });
            match polled.await {
                Some(output) => return (output, !may_freeze),
                None => {
                    may_freeze = false;
                    sleep(time).await;
                }
            }
        }
    }
}

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

    pub(super) async fn raise(&self, id: &str) {
        let raised = self.client.raise_event(id, "go", "").await;
        raised.expect("it is raised");
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
                if fails { Err("broken".to_owned()) } else { Ok(input) }
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Waiter", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_wait("go").await;
            Ok(input)
        })
        .register("Above", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_sub_orchestration_with_id("Waiter", "below", input)
                .await
        })
        .register("Fragile", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Break", &*input).await?;
            ctx.schedule_wait("go").await;
            Ok(input)
        })
        .register("AboveFragile", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_sub_orchestration_with_id("Fragile", "below", input)
                .await
        })
        .register("Again", |ctx: OrchestrationContext, input: String| async move {
            let left: u32 = input.parse().expect("a number");
            if left == 0 {
                ctx.schedule_wait("go").await;
                return Ok("done".to_owned());
            }
            ctx.continue_as_new((left - 1).to_string()).await
        })
        .register("Stepper", |ctx: OrchestrationContext, seconds: String| async move {
            ctx.schedule_activity("Step", seconds).await
        })
        .register("TakeFail", |ctx: OrchestrationContext, _: String| async move {
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
        })
        .build()
}
