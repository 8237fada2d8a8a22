//! Leases one document by its key, and breaks leases of other holders.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::retry::within_deadline;
use cdb_model::container::MemberOf;
use cdb_model::document::{DocumentAddress, KnownPartition};
use cdb_model::operation::{Leasable, Lease, Target};
use cdb_model::{Container, Patch, Stored};
use derive_where::derive_where;
use tokio::time::Instant;

use super::contention::Contention;
use super::error::LeaseError;
use super::fenced::Held;
use super::guard::LeaseGuard;
use super::health::Event;
use super::lock::{fresh_mark, lock};
use crate::timing::{LEASE, YEAR};

/// How often a document is read again after another writer changed it between the read and the
/// lock.
const ATTEMPTS: u32 = 8;

/// The leases of the documents of type `D` in a container, in the name of one holder.
///
/// The holder's name is for people. Two processes with the same name do not share a lease, and a
/// restarted process waits until the leases of its former run expire.
///
/// ```no_run
/// # use cdb_coordination::{LeaseError, Leases};
/// # use cdb_model::operation::Lease;
/// # use cdb_model::{Container, Document, Patch, Query};
/// # use serde::{Deserialize, Serialize};
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "order", id = "{customer}:{number}")]
/// struct Order {
///     #[document(partition_key)]
///     customer: String,
///     number: u64,
///     #[document(index)]
///     packed: bool,
///     #[document(lease)]
///     lease: Lease,
/// }
///
/// #[derive(Container)]
/// enum Shop {
///     Order(Order),
/// }
///
/// # async fn example(shop: cdb_client::ContainerClient<Shop>) -> Result<(), LeaseError> {
/// let leases = Leases::<Shop, Order>::new(&shop, "packer-1");
/// let order = leases.acquire(&OrderKey::new("ann", 7)).await?;
/// order.release_with(Patch::new().set(Order::PACKED, true)).await?;
///
/// let open = Query::across_partitions().filter(Order::PACKED.eq(false));
/// for order in leases.take_next(open, 10).await? {
///     println!("{} is mine for {:?}", order.document().number, order.remaining());
/// }
/// # Ok(()) }
/// ```
#[derive_where(Clone, Debug)]
pub struct Leases<C, D> {
    pub(super) container: ContainerClient<C>,
    holder: Arc<str>,
    duration: Duration,
    pub(super) contention: Arc<Contention>,
    marker: PhantomData<fn() -> D>,
}

/// An attempt to lease one version of a document.
pub(super) struct LockAttempt<D> {
    pub(super) seen: Stored<D>,
    pub(super) lease: Lease,
    pub(super) mark: String,
    sent: Instant,
}

impl<C, D> Leases<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    /// Creates leases of 60 seconds in the name of `holder`.
    pub fn new(container: &ContainerClient<C>, holder: impl Into<Arc<str>>) -> Self {
        Self {
            container: container.clone(),
            holder: holder.into(),
            duration: LEASE,
            contention: Arc::default(),
            marker: PhantomData,
        }
    }

    /// Sets the duration of a lease. Choose it well above the time between two writes of the
    /// holder, and above the clock difference between the processes. At most one year.
    #[must_use]
    pub fn with_duration(mut self, duration: Duration) -> Self {
        self.duration = duration.min(YEAR);
        self
    }

    /// Leases a document, if it is free or its lease has expired.
    ///
    /// # Errors
    /// [`Held`](LeaseError::Held) when another holder has the lease, [`Gone`](LeaseError::Gone)
    /// when the document does not exist.
    pub async fn acquire<T>(&self, target: T) -> Result<LeaseGuard<C, D>, LeaseError>
    where
        T: Target<Document = D>,
        T::Partition: KnownPartition,
    {
        let attempts = self.try_acquire(target.address());
        within_deadline(self.container.deadline(), attempts).await
    }

    async fn try_acquire<P: KnownPartition>(
        &self,
        address: DocumentAddress<D, P>,
    ) -> Result<LeaseGuard<C, D>, LeaseError> {
        let mut container = self.container.clone();
        for _ in 0..ATTEMPTS {
            let Some(seen) = container.read(address.clone()).await? else {
                return Err(LeaseError::gone::<D>(address.id()?));
            };
            if let Some(guard) = self.acquire_seen(seen).await? {
                return Ok(guard);
            }
            // Another writer was faster. A read with this session's consistency may not show that
            // write.
            container = self.container.latest_committed();
        }
        let id = address.id()?.to_string();
        Err(LeaseError::Contended { id })
    }

    /// Leases exactly this version of a document. Returns `None` when the document has changed
    /// since.
    ///
    /// # Errors
    /// [`Held`](LeaseError::Held) when another holder has the lease.
    pub async fn acquire_seen(
        &self,
        seen: Stored<D>,
    ) -> Result<Option<LeaseGuard<C, D>>, LeaseError> {
        let lease = seen.document.lease();
        if let Some(holder) = lease
            .holder()
            .filter(|_| lease.is_held(self.container.now()))
        {
            return Err(LeaseError::Held {
                id: seen.id.to_string(),
                holder: holder.to_owned(),
                until: lease.until(),
            });
        }
        let attempt = self.attempt(seen);
        let Some(etag) = lock(
            &self.container,
            &attempt.seen,
            &attempt.patch(),
            &attempt.mark,
        )
        .await?
        else {
            Event::COLLISION.count::<D>();
            return Ok(None);
        };
        let mut guard = self.won(attempt, etag);
        // The answer took so long that another holder may already have the document.
        if guard.remaining().is_zero() {
            guard.renew().await?;
        }
        Ok(Some(guard))
    }

    /// Ends the lease of any holder. The holder's next write is refused, and every process may
    /// lease the document. For operators who know that the holder hangs. Returns the lease that was
    /// broken, or `None` when the document was free.
    ///
    /// # Errors
    /// [`Gone`](LeaseError::Gone) when the document does not exist.
    pub async fn break_lease<T>(&self, target: T) -> Result<Option<Lease>, LeaseError>
    where
        T: Target<Document = D>,
        T::Partition: KnownPartition,
    {
        let attempts = self.try_break(target.address());
        within_deadline(self.container.deadline(), attempts).await
    }

    async fn try_break<P: KnownPartition>(
        &self,
        address: DocumentAddress<D, P>,
    ) -> Result<Option<Lease>, LeaseError> {
        let container = self.container.latest_committed();
        for _ in 0..ATTEMPTS {
            let Some(seen) = container.read(address.clone()).await? else {
                return Err(LeaseError::gone::<D>(address.id()?));
            };
            let lease = seen.document.lease();
            if !lease.is_held(container.now()) {
                return Ok(None);
            }
            let mark = fresh_mark();
            let broken = lease.given_back(&mark, container.now());
            let patch = D::LEASE_PATHS.set(Patch::new(), &broken);
            if lock(&container, &seen, &patch, &mark).await?.is_some() {
                Event::BROKEN.count::<D>();
                return Ok(Some(lease.clone()));
            }
        }
        let id = address.id()?.to_string();
        Err(LeaseError::Contended { id })
    }

    pub(super) fn attempt(&self, seen: Stored<D>) -> LockAttempt<D> {
        let (mark, until) = (fresh_mark(), self.container.now() + self.duration);
        LockAttempt {
            lease: seen.document.lease().taken(&self.holder, &mark, until),
            seen,
            mark,
            sent: Instant::now(),
        }
    }

    /// The guard of an attempt that took place.
    pub(super) fn won(&self, attempt: LockAttempt<D>, etag: cdb_model::ETag) -> LeaseGuard<C, D> {
        Event::ACQUIRED.count::<D>();
        if attempt.seen.document.lease().holder().is_some() {
            Event::TAKEN_OVER.count::<D>();
        }
        let mut stored = attempt.seen;
        stored.etag = etag;
        let token = attempt.lease.token();
        stored.document.set_lease(attempt.lease);
        LeaseGuard::new(Held {
            container: self.container.clone(),
            current: stored.etag.clone(),
            stored,
            token,
            duration: self.duration,
            valid_until: attempt.sent + self.duration,
            ended: None,
            unread: None,
            unfinished: Vec::new(),
        })
    }
}

impl<D: Leasable> LockAttempt<D> {
    pub(super) fn patch(&self) -> Patch<D> {
        D::LEASE_PATHS.set(Patch::new(), &self.lease)
    }
}
