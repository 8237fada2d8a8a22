//! When entries are written: at once, at the end of a scope, or at intervals.
//!
//! A strategy only triggers flushes. Entries wait in the queues of the coordinator, and a flush of
//! any strategy also writes earlier entries. So strategies can be mixed, and the order does not
//! depend on them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::entry::{WorkEntry, WorkReport};
use super::exchange::Accepted;
use crate::error::WorkError;
use crate::memory::inner::{Inner, partitions_of};
use crate::memory::settlement::{Receipt, Settlement};
use crate::streams::new_work::NewWork;

/// Accepts entries and triggers their writes. See [`Immediate`], [`Scoped`] and
/// [`Interval`](crate::Interval).
///
/// ```
/// use cdb_work::{FlushStrategy, NewWork, WorkError};
///
/// /// Works with every strategy.
/// async fn announce(strategy: &dyn FlushStrategy, order: &str) -> Result<(), WorkError> {
///     let receipt = strategy.store(NewWork::outbox(order, "announced")).await;
///     receipt.settled().await.map(drop) // the message is stored
/// }
/// ```
#[async_trait]
pub trait FlushStrategy: Send + Sync {
    /// Accepts an entry. Its receipt resolves when it is written.
    async fn submit(&self, entry: WorkEntry) -> Receipt;

    /// Writes all entries that were submitted before.
    ///
    /// # Errors
    /// When the service cannot be reached. Receipts have the outcome of each entry.
    async fn flush(&self) -> Result<(), WorkError>;

    /// Accepts a new message.
    async fn store(&self, new: NewWork) -> Receipt {
        self.submit(new.into()).await
    }

    /// Accepts a report.
    async fn report(&self, report: WorkReport) -> Receipt {
        self.submit(report.into()).await
    }
}

/// Writes every entry at once: the least delay, the most requests.
#[derive(Clone, Debug)]
pub struct Immediate {
    inner: Arc<Inner>,
}

impl Immediate {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Stores a message.
    ///
    /// # Errors
    /// When it was not stored, or may not have been: then the coordinator finds out, and stores it
    /// once.
    pub async fn store(&self, new: NewWork) -> Result<Settlement, WorkError> {
        self.submit(new.into()).await.settled().await
    }

    /// Writes a report.
    ///
    /// # Errors
    /// When it was not written, or may not have been: then the coordinator finds out, and writes it
    /// once. The claim is held until then.
    pub async fn report(&self, report: WorkReport) -> Result<Settlement, WorkError> {
        self.submit(report.into()).await.settled().await
    }
}

#[async_trait]
impl FlushStrategy for Immediate {
    async fn submit(&self, entry: WorkEntry) -> Receipt {
        let taken = self.inner.accept(entry);
        self.inner
            .write_now(taken.place.into_iter().collect())
            .await;
        taken.receipt
    }

    async fn flush(&self) -> Result<(), WorkError> {
        Ok(())
    }
}

/// Writes on commit: one request per virtual partition for all submitted entries.
///
/// When dropped without a commit, it writes in the background. Without a Tokio runtime the entries
/// are lost, which the log and their receipts report.
///
/// ```
/// use cdb_work::{FlushStrategy as _, NewWork};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let scope = work.scoped();
/// for number in 0..10 {
///     scope.store(NewWork::inbox("order-7", format!("event-{number}"))).await;
/// }
/// scope.commit().await?; // ten messages, one batch
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Scoped {
    open: OpenEntries,
}

impl Scoped {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self {
            open: OpenEntries::new(inner),
        }
    }

    /// Writes all submitted entries.
    ///
    /// # Errors
    /// When the service cannot be reached. Unwritten entries are withdrawn with this error, and the
    /// claims of their reports are void.
    pub async fn commit(self) -> Result<(), WorkError> {
        self.flush().await
    }
}

#[async_trait]
impl FlushStrategy for Scoped {
    async fn submit(&self, entry: WorkEntry) -> Receipt {
        self.open.submit(entry).receipt
    }

    async fn flush(&self) -> Result<(), WorkError> {
        let mut opened = self.open.take();
        let error = self.open.inner.write_now(opened.places.clone()).await;
        // Written or withdrawn.
        opened.places.clear();
        error.map_or(Ok(()), Err)
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        let places = std::mem::take(&mut self.open.take().places);
        if places.is_empty() {
            return;
        }
        let inner = self.open.inner.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    if let Some(error) = inner.write_now(places).await {
                        tracing::error!(%error, "the entries of a dropped scope were not written");
                    }
                });
            }
            Err(_) => inner.abandon(&places),
        }
    }
}

/// The submitted entries of a strategy that are not yet written.
#[derive(Debug)]
pub(crate) struct OpenEntries {
    pub(crate) inner: Arc<Inner>,
    places: Mutex<BTreeSet<(u16, u64)>>,
    /// How many entries the last flush has kept for partitions that do not answer.
    silent: AtomicUsize,
}

/// The number of open entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCount {
    pub(crate) written_soon: usize,
    /// Those of partitions that do not answer. They delay no others.
    pub(crate) silent: usize,
}

/// Entries that are being written. Those left in `places` are open again on drop, even when the
/// flush is cancelled.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    entries: &'a OpenEntries,
    pub(crate) places: Vec<(u16, u64)>,
}

impl OpenEntries {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            places: Mutex::default(),
            silent: AtomicUsize::new(0),
        }
    }

    fn places(&self) -> MutexGuard<'_, BTreeSet<(u16, u64)>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an entry.
    pub(crate) fn submit(&self, entry: WorkEntry) -> Accepted {
        let accepted = self.inner.accept(entry);
        self.places().extend(accepted.place);
        accepted
    }

    /// Counts the open entries.
    pub(crate) fn count(&self) -> OpenCount {
        let all = self.places().len();
        let silent = self.silent.load(Ordering::Relaxed).min(all);
        OpenCount {
            written_soon: all - silent,
            silent,
        }
    }

    pub(crate) fn take(&self) -> Opened<'_> {
        Opened {
            entries: self,
            places: std::mem::take(&mut *self.places()).into_iter().collect(),
        }
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let entries = self.entries;
        let silent = partitions_of(&self.places).into_iter();
        let silent: BTreeSet<u16> = silent.filter(|at| entries.inner.is_silent(*at)).collect();
        let kept = self.places.iter().filter(|(at, _)| silent.contains(at));
        entries.silent.store(kept.count(), Ordering::Relaxed);
        entries.places().extend(self.places.drain(..));
    }
}
