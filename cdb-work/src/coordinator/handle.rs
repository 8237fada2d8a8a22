//! The coordinator: the entry point for all writes and claims.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::retry::{time_left, within_deadline};
use tokio::time::Instant;

use crate::config::WorkConfig;
use crate::error::WorkError;
use crate::events::store::EventStore;
use crate::flush::entry::{ClaimedWork, WorkEntry};
use crate::flush::exchange::Accepted;
use crate::flush::interval::{Interval, IntervalConfig};
use crate::flush::strategy::{Immediate, Scoped};
use crate::memory::inner::Inner;
use crate::memory::settlement::Settlement;
use crate::memory::state::later;
use crate::partition::{forget, ownership, renewal};
use crate::streams::documents::{Lane, Work};
use crate::streams::new_work::NewWork;
use crate::timing::UNSTARTED_PAUSE;
use cdb_coordination::membership::LeaseProvider;

/// Stores messages in streams, hands them out in order, and writes their results.
///
/// Cheap to clone. Coordinators in any number of processes share the work of one container. Each
/// holds some of the virtual partitions, and the holder of a partition works on the messages of its
/// streams one after the other.
///
/// A strategy decides when entries are written: [`immediate`](Self::immediate),
/// [`scoped`](Self::scoped) or [`interval`](Self::interval). [`process`](Self::process) writes one
/// batch of entries.
///
/// ```
/// use std::time::Duration;
/// use cdb_work::NewWork;
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
#[derive(Clone, Debug)]
pub struct WorkCoordinator {
    pub(crate) inner: Arc<Inner>,
}

/// The input of [`WorkCoordinator::process`].
///
/// ```
/// use cdb_work::{NewWork, WorkBatch};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let entries = ["order-7", "order-8"].map(|order| NewWork::inbox(order, "paid-1").into());
/// let done = work.process(WorkBatch { entries: entries.into(), claim: 10, lane: None }).await;
/// assert_eq!(done.claimed.len(), 2); // one message of each stream
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct WorkBatch {
    /// The entries to write: new messages and reports.
    pub entries: Vec<WorkEntry>,
    /// How many messages to claim.
    pub claim: usize,
    /// The lane of the claimed messages; both by default.
    pub lane: Option<Lane>,
}

/// The output of [`WorkCoordinator::process`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Processed {
    /// The outcome of each entry, in order.
    pub settled: Vec<Result<Settlement, WorkError>>,
    /// The claimed messages; may be fewer than requested, or none.
    pub claimed: Vec<ClaimedWork>,
}

impl WorkCoordinator {
    /// Opens a coordinator for the virtual partitions that `slots` provides
    /// ([`LeaseProvider::parts`]). The coordinator also adopts partitions that stay free for two
    /// times [`WorkConfig::lease`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use cdb_client::ContainerClient;
    /// use cdb_coordination::membership::InMemoryLeaseProvider;
    /// use cdb_work::{Work, WorkConfig, WorkCoordinator};
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
    /// When the container cannot be read or written, or was set up with another number of
    /// partitions; [`WorkError::Timing`] when durations of the configuration contradict each other.
    pub async fn open(
        container: ContainerClient<Work>,
        slots: Arc<dyn LeaseProvider>,
        config: WorkConfig,
    ) -> Result<Self, WorkError> {
        let inner = Inner::new(container, slots, config.checked()?);
        within_deadline(inner.container.deadline(), inner.agree_on_settings()).await?;
        // Before the first upkeep, which may last longer than the leases that it takes.
        tokio::spawn(renewal::run(Arc::downgrade(&inner), inner.stop.clone()));
        inner.upkeep().await?;
        tokio::spawn(ownership::run(Arc::downgrade(&inner), inner.stop.clone()));
        tokio::spawn(forget::run(Arc::downgrade(&inner), inner.stop.clone()));
        Ok(Self { inner })
    }

    /// The coordinator's unique id in the container.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The virtual partitions that the coordinator holds now.
    pub fn partitions(&self) -> Vec<u16> {
        self.inner.state().owned().map(|(index, _)| index).collect()
    }

    /// Writes entries, in one request per virtual partition, and claims messages. A request that
    /// completes messages also extends the lease of the partition. Each entry has its own outcome.
    pub async fn process(&self, batch: WorkBatch) -> Processed {
        let taken: Vec<Accepted> = batch
            .entries
            .into_iter()
            .map(|entry| self.inner.accept(entry))
            .collect();
        let places = taken.iter().filter_map(|taken| taken.place).collect();
        let begun = Instant::now();
        self.inner.write_now(places).await;
        let mut settled = Vec::with_capacity(taken.len());
        for taken in taken {
            settled.push(taken.receipt.settled().await);
        }
        let claimed = match batch.claim {
            0 => Vec::new(),
            most => {
                let left = self
                    .inner
                    .container
                    .deadline()
                    .saturating_sub(begun.elapsed());
                let claim = self.claim_from(batch.lane, most, Duration::ZERO);
                within_deadline(left, claim).await
            }
        };
        Processed { settled, claimed }
    }

    /// Stores a message and claims it at once, if it is the next one of its stream and this
    /// coordinator holds the partition. Otherwise the message waits for its turn and the claim is
    /// `None`, also for a duplicate, when a concurrent call claims the message first, or while the
    /// coordinator has not read the progress of the stream. So the order is that of
    /// [`claim`](Self::claim), which hands out the message later.
    ///
    /// ```
    /// use cdb_work::{NewWork, Settlement};
    /// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
    /// # setup::with_work(async |work| {
    ///
    /// let (stored, first) = work.store_and_claim(NewWork::inbox("order-7", "paid-1")).await?;
    /// assert_eq!(stored, Settlement::Stored { sequence: 1 });
    /// let (_, second) = work.store_and_claim(NewWork::inbox("order-7", "paid-2")).await?;
    /// assert!(second.is_none()); // `paid-1` is not completed
    /// work.immediate().report(first.expect("nothing is before it").done()).await?;
    /// # work.shutdown().await?; Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Immediate::store`].
    pub async fn store_and_claim(
        &self,
        new: NewWork,
    ) -> Result<(Settlement, Option<ClaimedWork>), WorkError> {
        let key = new.key();
        let stored = self.immediate().store(new).await?;
        let Settlement::Stored { sequence } = stored else {
            return Ok((stored, None));
        };
        let handed_out = self.inner.hand_out_stored(&key, sequence);
        let mut claimed = self.inner.start(handed_out.into_iter().collect()).await;
        Ok((stored, claimed.pop()))
    }

    /// Claims up to `most` messages, each the next one of its stream, longest waiting first. Waits
    /// up to `wait` for the first one.
    pub async fn claim(&self, most: usize, wait: Duration) -> Vec<ClaimedWork> {
        self.claim_from(None, most, wait).await
    }

    /// Claims up to `most` messages of one lane, or of both. Two workers can share a coordinator:
    /// one handles the inbox, the other publishes the outbox.
    pub async fn claim_from(
        &self,
        lane: impl Into<Option<Lane>>,
        most: usize,
        wait: Duration,
    ) -> Vec<ClaimedWork> {
        // What is found at the end of the wait can still be started.
        let longest = wait.saturating_add(self.inner.container.deadline());
        let claim = self.claim_until(lane.into(), most, later(wait));
        within_deadline(longest, claim).await
    }

    async fn claim_until(
        &self,
        lane: Option<Lane>,
        most: usize,
        deadline: Instant,
    ) -> Vec<ClaimedWork> {
        let inner = &self.inner;
        loop {
            let news = inner.news.notified();
            tokio::pin!(news);
            // Count notifications from here on, also those before the wait.
            news.as_mut().enable();
            let handed_out = inner.hand_out(lane, most);
            let is_unstarted = !handed_out.is_empty();
            let claimed = inner.start(handed_out).await;
            if !claimed.is_empty() || inner.stop.is_cancelled() {
                return claimed;
            }
            let searched = inner.search().await;
            if searched.found_some && !is_unstarted && !time_left().is_zero() {
                continue;
            }
            let now = Instant::now();
            if now >= deadline {
                return Vec::new();
            }
            let next = if is_unstarted {
                // The store refuses writes: do not try again at once.
                now + UNSTARTED_PAUSE
            } else {
                searched.again_at.min(inner.next_due_at(lane, now))
            };
            let next = next.min(deadline);
            tokio::select! {
                // Messages that were given back unstarted are no news.
                () = &mut news, if !is_unstarted => {}
                () = inner.stop.cancelled() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// A strategy that writes every entry at once.
    pub fn immediate(&self) -> Immediate {
        Immediate::new(self.inner.clone())
    }

    /// A strategy that writes on commit or drop.
    pub fn scoped(&self) -> Scoped {
        Scoped::new(self.inner.clone())
    }

    /// A strategy that writes at intervals, or when many entries are queued.
    pub fn interval(&self, config: IntervalConfig) -> Interval {
        Interval::new(self.inner.clone(), config)
    }

    /// The event store in the same container.
    pub fn events(&self) -> EventStore {
        EventStore::new(self.inner.container.clone(), self.inner.config.partitions)
    }

    /// Stops claiming, writes the queued entries, and releases all partitions, so that others need
    /// not wait for the leases to expire.
    ///
    /// # Errors
    /// When an entry could not be written; its receipt has the error too. The partitions are then
    /// free when their leases expire.
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
