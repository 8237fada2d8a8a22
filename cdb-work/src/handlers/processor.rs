//! Runs handlers on claimed messages: claims, isolates panics, reports, and stops gracefully.

use std::pin::pin;
use std::sync::Arc;

use cdb_coordination::HandlerError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::handler::{Completed, WorkContext, WorkFailure, WorkHandlers};
use crate::coordinator::handle::WorkCoordinator;
use crate::error::WorkError;
use crate::flush::entry::{ClaimedWork, WorkReport};
use crate::flush::interval::{Interval, IntervalConfig};
use crate::flush::strategy::FlushStrategy as _;
use crate::memory::settlement::Settlement;
use crate::streams::documents::Lane;
use crate::streams::stream::ClaimState;
use crate::timing::{CLAIM_CHECK, CLAIM_WAIT, RUN_FLUSH};

/// The configuration of [`WorkCoordinator::run`].
///
/// ```
/// use cdb_work::{Lane, RunConfig};
///
/// let publisher = RunConfig::default().with_concurrency(8).with_lane(Lane::Outbox);
/// assert_eq!((publisher.concurrency, publisher.lane), (8, Some(Lane::Outbox)));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunConfig {
    /// How many handlers run at a time, 32 by default. Further messages are not claimed.
    pub concurrency: usize,
    /// The lane whose messages are claimed; both by default.
    pub lane: Option<Lane>,
    /// When results are written: every 100 ms by default. A stream does not wait for it.
    pub flush: IntervalConfig,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            concurrency: 32,
            lane: None,
            flush: IntervalConfig::every(RUN_FLUSH),
        }
    }
}

impl RunConfig {
    /// Sets how many handlers run at a time; at least one.
    #[must_use]
    pub fn with_concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers.max(1);
        self
    }

    /// Claims the messages of one lane.
    #[must_use]
    pub fn with_lane(mut self, lane: Lane) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Sets when results are written.
    #[must_use]
    pub fn with_flush(mut self, flush: IntervalConfig) -> Self {
        self.flush = flush;
        self
    }
}

/// Running handlers. Dropping it stops them in the background.
#[derive(Debug)]
pub struct WorkRun {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), WorkError>>,
    pub(crate) _stop_on_drop: DropGuard,
}

impl WorkRun {
    /// Stops claiming, waits for running handlers, and writes their results. Then shut the
    /// coordinator down.
    ///
    /// # Errors
    /// When results could not be written. Their messages are handed out again.
    pub async fn stop(self) -> Result<(), WorkError> {
        self.stop.cancel();
        // The task catches panics of handlers and hooks.
        self.task.await.unwrap_or(Err(WorkError::Unflushed))
    }
}

impl WorkCoordinator {
    /// Runs handlers on the messages of this coordinator, in tasks of the current Tokio runtime.
    /// Handlers of different streams run concurrently. Several runs can share a coordinator, for
    /// example one per lane.
    ///
    /// - A **panic** or an error fails the attempt; other messages continue.
    /// - A handler whose **claim** timed out or was lost is cancelled.
    /// - **Back-pressure**: no more messages are claimed than handlers may run.
    ///
    /// ```
    /// use cdb_coordination::Message;
    /// use cdb_work::{NewWork, RunConfig, WorkHandlers};
    /// use serde::{Deserialize, Serialize};
    /// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
    /// #[derive(Serialize, Deserialize)]
    /// struct Paid { cents: u64 }
    ///
    /// impl Message for Paid {
    ///     const TYPE: &'static str = "paid";
    /// }
    /// # setup::with_work(async |work| {
    ///
    /// let (told, mut completed) = tokio::sync::mpsc::unbounded_channel();
    /// let handlers = WorkHandlers::new()
    ///     .on(async |paid: Paid, work| {
    ///         println!("{} cents", paid.cents);
    ///         Ok(work.done())
    ///     })
    ///     .on_completion(move |message| drop(told.send(message.message_id.clone())));
    /// let run = work.run(RunConfig::default(), handlers);
    /// let paid = NewWork::inbox("order-7", "paid-1").with_message(&Paid { cents: 9900 })?;
    /// work.immediate().store(paid).await?;
    /// assert_eq!(completed.recv().await.as_deref(), Some("paid-1"));
    /// run.stop().await?;
    /// work.shutdown().await?;
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn run(&self, config: RunConfig, handlers: WorkHandlers) -> WorkRun {
        let stop = CancellationToken::new();
        let processor = Arc::new(Processor {
            results: self.interval(config.flush),
            work: self.clone(),
            handlers,
            told: TaskTracker::new(),
        });
        WorkRun {
            task: tokio::spawn(processor.run(config, stop.clone())),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }
}

struct Processor {
    work: WorkCoordinator,
    handlers: WorkHandlers,
    results: Interval,
    /// Results whose hooks are still to be called.
    told: TaskTracker,
}

impl Processor {
    async fn run(
        self: Arc<Self>,
        config: RunConfig,
        stop: CancellationToken,
    ) -> Result<(), WorkError> {
        let permits = Arc::new(Semaphore::new(config.concurrency.max(1)));
        let handling = TaskTracker::new();
        while let Some(claimed) = self.next(&permits, config.lane, &stop).await {
            for (claimed, permit) in claimed {
                handling.spawn(self.clone().handle(claimed, permit));
            }
        }
        handling.close();
        handling.wait().await;
        let flushed = self.results.flush().await;
        self.told.close();
        if flushed.is_ok() {
            self.told.wait().await;
        }
        flushed
    }

    /// Claims as many messages as handlers may run. Returns `None` after the stop.
    async fn next(
        &self,
        permits: &Arc<Semaphore>,
        lane: Option<Lane>,
        stop: &CancellationToken,
    ) -> Option<Vec<(ClaimedWork, OwnedSemaphorePermit)>> {
        let next = async {
            // The semaphore is never closed.
            let first = permits.clone().acquire_owned().await.ok()?;
            let most = permits.available_permits() + 1;
            let claimed = self.work.claim_from(lane, most, CLAIM_WAIT).await;
            let further = std::iter::from_fn(|| permits.clone().try_acquire_owned().ok());
            let permits = std::iter::once(first).chain(further);
            Some(claimed.into_iter().zip(permits).collect())
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = self.work.inner.stop.cancelled() => None,
            next = next => next,
        }
    }

    async fn handle(self: Arc<Self>, claimed: ClaimedWork, permit: OwnedSemaphorePermit) {
        let message = claimed.message.clone();
        let Some(result) = self.result_of(&claimed).await else {
            tracing::warn!(
                message_id = message.message_id,
                stream = message.stream,
                "a handler was cancelled, because its claim is no longer held"
            );
            return;
        };
        let failure = result
            .as_ref()
            .err()
            .map(|failed| failed.reason().to_owned());
        let (report, rest) = report(claimed, result);
        let receipt = self.results.report(report).await;
        if let Some(claimed) = rest {
            claimed.release();
        }
        drop(permit);
        let this = self.clone();
        self.told.spawn(async move {
            let told = match (receipt.settled().await, failure) {
                (Ok(Settlement::Done | Settlement::Progressed), None) => Ok(message),
                (settled, reason) => Err(WorkFailure {
                    message,
                    reason: reason.unwrap_or_else(|| match &settled {
                        Err(error) => error.to_string(),
                        Ok(_) => String::new(),
                    }),
                    settled,
                }),
            };
            this.handlers.tell(&told);
        });
    }

    /// Runs the handler. Returns `None` when the claim was lost before it ended.
    async fn result_of(&self, claimed: &ClaimedWork) -> Option<Result<Completed, HandlerError>> {
        let mut handling = pin!(self.handlers.table.handle(WorkContext::new(claimed)));
        loop {
            tokio::select! {
                biased;
                result = &mut handling => return Some(result),
                () = tokio::time::sleep(CLAIM_CHECK) => {
                    let claim = &claimed.guard.claim;
                    let state = self.work.inner.with_streams(claim, |streams| {
                        streams.state_of(claim.in_stream())
                    });
                    if state == ClaimState::Void {
                        return None;
                    }
                }
            }
        }
    }
}

/// The report of a result, and the claim if the report does not consume it.
fn report(
    claimed: ClaimedWork,
    result: Result<Completed, HandlerError>,
) -> (WorkReport, Option<ClaimedWork>) {
    match result {
        Ok(Completed { stages, effects }) => {
            let (mut report, rest) = match stages {
                None => (claimed.done(), None),
                Some(stages) => (claimed.reached(stages), Some(claimed)),
            };
            report.effects = effects;
            (report, rest)
        }
        Err(failed) if failed.is_permanent() => (claimed.rejected(failed.reason()), None),
        Err(failed) => (claimed.failed(failed.reason()), None),
    }
}
