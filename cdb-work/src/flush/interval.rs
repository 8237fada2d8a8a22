//! Writes at intervals: one request carries the entries since the last one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::entry::WorkEntry;
use super::exchange::Accepted;
use super::strategy::{FlushStrategy, OpenEntries};
use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::memory::settlement::Receipt;
use crate::memory::state::later;
use crate::timing::{FLUSH, LAST_FLUSH, LAST_FLUSH_PAUSE};

/// The configuration of [`Interval`].
///
/// ```
/// use std::time::Duration;
/// use cdb_work::IntervalConfig;
///
/// let config = IntervalConfig::every(Duration::from_millis(100)).with_most_entries(500);
/// assert_eq!((config.every.as_millis(), config.most_entries), (100, 500));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct IntervalConfig {
    /// The longest time that an entry waits, 200 ms by default.
    pub every: Duration,
    /// How many entries are written without waiting, 2,000 by default.
    pub most_entries: usize,
    /// The timeout of the last flush after the strategy was dropped, 30 s by default.
    pub last_flush: Duration,
}

impl Default for IntervalConfig {
    fn default() -> Self {
        Self {
            every: FLUSH,
            most_entries: 2000,
            last_flush: LAST_FLUSH,
        }
    }
}

impl IntervalConfig {
    /// Sets the interval.
    #[must_use]
    pub fn every(every: Duration) -> Self {
        Self {
            every,
            ..Self::default()
        }
    }

    /// Sets how many entries are written without waiting.
    #[must_use]
    pub fn with_most_entries(mut self, entries: usize) -> Self {
        self.most_entries = entries.max(1);
        self
    }
}

/// Writes at intervals, or when many entries are queued: the fewest requests.
///
/// Entries that could not be written are retried with the next flush. When the strategy is dropped,
/// it writes the rest in the background. Entries that cannot be written then are lost, which the
/// log and their receipts report.
///
/// ```
/// use std::time::Duration;
/// use cdb_work::{FlushStrategy as _, IntervalConfig, NewWork};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let ends = work.interval(IntervalConfig::every(Duration::from_millis(100)).with_most_entries(500));
/// let receipt = ends.store(NewWork::inbox("order-7", "paid-1")).await;
/// receipt.settled().await?; // waiting is optional
/// ends.close().await?;
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Interval {
    shared: Arc<Shared>,
    /// Ends the task when the strategy is dropped.
    end: CancellationToken,
    task: Option<JoinHandle<usize>>,
}

#[derive(Debug)]
struct Shared {
    open: OpenEntries,
    config: IntervalConfig,
    full: Notify,
}

impl Interval {
    pub(crate) fn new(inner: Arc<Inner>, config: IntervalConfig) -> Self {
        let shared = Arc::new(Shared {
            open: OpenEntries::new(inner),
            config,
            full: Notify::new(),
        });
        let end = CancellationToken::new();
        let task = tokio::spawn(shared.clone().run(end.clone()));
        Self {
            shared,
            end,
            task: Some(task),
        }
    }

    /// Writes the remaining entries and ends.
    ///
    /// # Errors
    /// When they cannot be written in time; the receipts of lost entries have the error too.
    pub async fn close(mut self) -> Result<(), WorkError> {
        self.end.cancel();
        let Some(task) = self.task.take() else {
            return Ok(());
        };
        match task.await {
            Ok(0) => Ok(()),
            _ => Err(WorkError::Unflushed),
        }
    }
}

impl Shared {
    /// Flushes until the strategy is dropped. Returns how many entries were lost.
    async fn run(self: Arc<Self>, end: CancellationToken) -> usize {
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                () = self.full.notified() => {}
                () = tokio::time::sleep(self.config.every) => {}
            }
            match self.flush().await {
                // The client logs a partition that does not answer.
                Ok(()) | Err(WorkError::Unanswered { .. }) => {}
                Err(error) => tracing::warn!(%error, "entries were not written; they are retried"),
            }
        }
        let deadline = later(self.config.last_flush);
        while let Ok(Err(error)) = tokio::time::timeout_at(deadline, self.flush()).await {
            tracing::warn!(%error, "the last entries were not written yet");
            let pause = match error {
                // Its requests were repeated already.
                WorkError::Unanswered { .. } => LAST_FLUSH_PAUSE,
                _ => self.config.every.min(LAST_FLUSH_PAUSE),
            };
            tokio::time::sleep(pause).await;
            // A flush that is cancelled at once would leave an unknown outcome.
            if Instant::now() >= deadline {
                break;
            }
        }
        let lost = std::mem::take(&mut self.open.take().places);
        self.open.inner.abandon(&lost);
        lost.len()
    }

    /// Writes the open entries. Entries that cannot be written stay open.
    async fn flush(&self) -> Result<(), WorkError> {
        let mut opened = self.open.take();
        self.open.inner.write_or_keep(&mut opened.places).await
    }
}

#[async_trait]
impl FlushStrategy for Interval {
    async fn submit(&self, entry: WorkEntry) -> Receipt {
        let Accepted { place, receipt } = self.shared.open.submit(entry);
        let most = self.shared.config.most_entries;
        let open = self.shared.open.count();
        if open.written_soon >= most {
            self.shared.full.notify_one();
        }
        // Backpressure: a caller that submits faster than the store writes waits.
        if open.written_soon >= most.saturating_mul(4)
            && let Err(error) = self.shared.flush().await
        {
            tracing::warn!(%error, "entries pile up because they cannot be written");
        }
        let is_silent =
            place.is_some_and(|(partition, _)| self.shared.open.inner.is_silent(partition));
        if is_silent && open.silent >= most.saturating_mul(4) {
            tokio::time::sleep(self.shared.config.every).await;
        }
        receipt
    }

    async fn flush(&self) -> Result<(), WorkError> {
        self.shared.flush().await
    }
}

impl Drop for Interval {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
