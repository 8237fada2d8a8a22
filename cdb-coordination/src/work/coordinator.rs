//! The coordinator: one entry point for everything that is written and everything that is handed out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::ContainerClient;
use tokio::time::Instant;

use super::config::WorkConfig;
use super::documents::Work;
use super::entry::{ClaimedWork, WorkEntry};
use super::error::WorkError;
use super::exchange::Taken;
use super::inner::Inner;
use super::settlement::Settlement;
use super::{EventStore, Immediate, Interval, IntervalConfig, Scoped, ownership};
use crate::slots::LeaseProvider;

/// Stores messages in streams, hands them out in order, and writes what became of them.
///
/// Cheap to clone. Several of them, in any number of processes, share the work on one container: each holds some of the
/// virtual partitions, and the messages of a stream are worked on one after the other, by whoever holds its partition.
///
/// What is written, when, is decided by a strategy: [`immediate`](Self::immediate), [`scoped`](Self::scoped),
/// [`interval`](Self::interval), or by hand with [`process`](Self::process).
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::NewWork;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let now = work.immediate();
/// now.store(NewWork::inbox("order-7", "paid-1").with_body("paid", "{}")).await?;
/// for message in work.claim(10, Duration::from_secs(5)).await {
///     println!("{} of {}", message.message().message_id, message.message().stream);
///     now.report(message.done()).await?;
/// }
/// work.shutdown().await?;
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct WorkCoordinator {
    pub(super) inner: Arc<Inner>,
}

/// Everything that [`WorkCoordinator::process`] is to do.
///
/// ```
/// use cdb_coordination::{NewWork, WorkBatch};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let entries = ["order-7", "order-8"].map(|order| NewWork::inbox(order, "paid-1").into());
/// let done = work.process(WorkBatch { entries: entries.into(), claim: 10 }).await;
/// assert_eq!(done.claimed.len(), 2); // of two streams; of one stream only the first
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct WorkBatch {
    /// What is to be written: new messages, ends, stages, failures.
    pub entries: Vec<WorkEntry>,
    /// How many messages are wanted.
    pub claim: usize,
}

/// What [`WorkCoordinator::process`] did.
///
/// ```
/// use cdb_coordination::{NewWork, Processed, Settlement, WorkBatch};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let entries = vec![NewWork::inbox("order-7", "paid-1").into()];
/// let done: Processed = work.process(WorkBatch { entries, claim: 0 }).await;
/// assert!(matches!(done.settled[..], [Ok(Settlement::Stored { sequence: 1 })]));
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Processed {
    /// What became of each entry, in their order.
    pub settled: Vec<Result<Settlement, WorkError>>,
    /// Messages to work on; may be fewer than were wanted, or none.
    pub claimed: Vec<ClaimedWork>,
}

impl WorkCoordinator {
    /// Opens a coordinator that holds the virtual partitions of the given slots. Partition `n` belongs to slot `n`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use cdb_client::ContainerClient;
    /// use cdb_coordination::{InMemoryLeaseProvider, Work, WorkConfig, WorkCoordinator};
    /// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
    /// # setup::with_container("work", async |container: ContainerClient<Work>| {
    ///
    /// let alone = Arc::new(InMemoryLeaseProvider::all()); // or a `Membership`
    /// let work = WorkCoordinator::open(container, alone, WorkConfig::default()).await?;
    /// assert_eq!(work.partitions().len(), 32);
    /// # work.shutdown().await?; Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When the container cannot be read or written, or was set up with another number of partitions.
    pub async fn open(
        container: ContainerClient<Work>,
        slots: Arc<dyn LeaseProvider>,
        config: WorkConfig,
    ) -> Result<Self, WorkError> {
        let inner = Inner::new(container, slots, config);
        inner.agree_on_settings().await?;
        inner.upkeep().await?;
        tokio::spawn(ownership::run(
            Arc::downgrade(&inner),
            inner.config.clone(),
            inner.stop.clone(),
        ));
        Ok(Self { inner })
    }

    /// How it is called in the container; unique.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The virtual partitions that it holds at the moment.
    pub fn partitions(&self) -> Vec<u16> {
        self.inner.state().owned().map(|(index, _)| index).collect()
    }

    /// Writes entries together, one request per virtual partition, and hands out messages. Leases of the partitions that it
    /// writes ends to are extended by the same requests. Each entry has its own outcome.
    pub async fn process(&self, batch: WorkBatch) -> Processed {
        let taken: Vec<Taken> = batch
            .entries
            .into_iter()
            .map(|entry| self.inner.take_in(entry))
            .collect();
        let places = taken.iter().filter_map(|taken| taken.place).collect();
        self.inner.write_now(places).await;
        let mut settled = Vec::with_capacity(taken.len());
        for taken in taken {
            settled.push(taken.receipt.settled().await);
        }
        let claimed = match batch.claim {
            0 => Vec::new(),
            most => self.claim(most, Duration::ZERO).await,
        };
        Processed { settled, claimed }
    }

    /// Hands out at most so many messages, each the next one of its stream, those that have waited longest first. Waits so
    /// long for the first of them.
    pub async fn claim(&self, most: usize, wait: Duration) -> Vec<ClaimedWork> {
        let inner = &self.inner;
        let deadline = Instant::now() + wait;
        loop {
            let news = inner.news.notified();
            tokio::pin!(news);
            // From here on news count, also those that come before it is waited for.
            news.as_mut().enable();
            let claimed = inner.hand_out(most);
            if !claimed.is_empty() || inner.stop.is_cancelled() {
                return claimed;
            }
            let searched = inner.search().await;
            if searched.found_some {
                continue;
            }
            let now = Instant::now();
            if now >= deadline {
                return Vec::new();
            }
            let next = searched.again_at.min(inner.next_due_at(now)).min(deadline);
            tokio::select! {
                () = &mut news => {}
                () = inner.stop.cancelled() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Writes every entry at once.
    pub fn immediate(&self) -> Immediate {
        Immediate::new(self.inner.clone())
    }

    /// Writes when it is committed, or dropped.
    pub fn scoped(&self) -> Scoped {
        Scoped::new(self.inner.clone())
    }

    /// Writes from time to time, or when much has come together.
    pub fn interval(&self, config: IntervalConfig) -> Interval {
        Interval::new(self.inner.clone(), config)
    }

    /// The event store in the same container.
    pub fn events(&self) -> EventStore {
        EventStore::new(self.inner.container.clone(), self.inner.config.partitions)
    }

    /// Hands out nothing more, writes what is queued, and gives every partition back, so that others need not wait for
    /// leases to expire.
    ///
    /// # Errors
    /// When something could not be written; its receipts say so too. The partitions are then free when their leases end.
    pub async fn shutdown(&self) -> Result<(), WorkError> {
        self.inner.stop.cancel();
        let places = self.inner.queued();
        let unwritten = self.inner.write_now(places).await;
        self.inner.release_all().await;
        match unwritten {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for WorkCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
