//! Writing from time to time: a request carries what came together since the last one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::entry::WorkEntry;
use super::error::WorkError;
use super::inner::Inner;
use super::settlement::Receipt;
use super::strategy::{FlushStrategy, OpenEntries};

/// How often [`Interval`] writes.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::IntervalConfig;
///
/// let config = IntervalConfig::every(Duration::from_millis(100)).with_most_entries(500);
/// assert_eq!((config.every.as_millis(), config.most_entries), (100, 500));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct IntervalConfig {
    /// An entry waits no longer than this, half a second by default.
    pub every: Duration,
    /// So many entries are written without waiting, 2,000 by default.
    pub most_entries: usize,
    /// How long the last flush may take after the strategy was dropped, 30 s by default.
    pub last_flush: Duration,
}

impl Default for IntervalConfig {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(500),
            most_entries: 2000,
            last_flush: Duration::from_secs(30),
        }
    }
}

impl IntervalConfig {
    /// Writes this often.
    #[must_use]
    pub fn every(every: Duration) -> Self {
        Self {
            every,
            ..Self::default()
        }
    }

    /// Writes so many entries without waiting.
    #[must_use]
    pub fn with_most_entries(mut self, entries: usize) -> Self {
        self.most_entries = entries.max(1);
        self
    }
}

/// Writes from time to time, or when much has come together: the fewest requests.
///
/// What could not be written stays and is tried again with the next flush. Dropped, it writes what is left in the
/// background; what cannot be written then is said to be lost, in the log and in the receipts.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::{FlushStrategy as _, IntervalConfig, NewWork};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let ends = work.interval(IntervalConfig::every(Duration::from_millis(100)).with_most_entries(500));
/// let receipt = ends.store(NewWork::inbox("order-7", "paid-1")).await;
/// receipt.settled().await?; // or do not wait
/// ends.close().await?;
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Interval {
    shared: Arc<Shared>,
    /// Ends the task when the strategy goes.
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
    pub(super) fn new(inner: Arc<Inner>, config: IntervalConfig) -> Self {
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

    /// Writes what is left and ends.
    ///
    /// # Errors
    /// When it cannot be written in time; the receipts of what was lost say so too.
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
    /// Flushes until the strategy goes. Returns how many entries were lost.
    async fn run(self: Arc<Self>, end: CancellationToken) -> usize {
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                () = self.full.notified() => {}
                () = tokio::time::sleep(self.config.every) => {}
            }
            if let Err(error) = self.flush().await {
                tracing::warn!(%error, "work could not be written and will be tried again");
            }
        }
        let deadline = Instant::now() + self.config.last_flush;
        while let Ok(Err(error)) = tokio::time::timeout_at(deadline, self.flush()).await {
            tracing::warn!(%error, "the last work could not be written yet");
            tokio::time::sleep(self.config.every.min(Duration::from_secs(1))).await;
        }
        let lost = std::mem::take(&mut self.open.take().places);
        self.open.inner.abandon(&lost);
        lost.len()
    }

    /// Writes what is open; what cannot be written stays open.
    async fn flush(&self) -> Result<(), WorkError> {
        let mut opened = self.open.take();
        self.open.inner.write_or_keep(&opened.places).await?;
        // Each has its receipt.
        opened.places.clear();
        Ok(())
    }
}

#[async_trait]
impl FlushStrategy for Interval {
    async fn submit(&self, entry: WorkEntry) -> Receipt {
        let (receipt, open) = self.shared.open.submit(entry);
        let most = self.shared.config.most_entries;
        if open >= most {
            self.shared.full.notify_one();
        }
        // Whoever submits faster than can be written waits for the store.
        if open >= most.saturating_mul(4)
            && let Err(error) = self.shared.flush().await
        {
            tracing::warn!(%error, "work piles up, because it cannot be written");
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
