//! The lease of one document as a value.

use std::fmt;
use std::time::Duration;

use cdb_model::container::MemberOf;
use cdb_model::operation::Leasable;
use cdb_model::{Container, Patch, Stored};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::error::LeaseError;
use super::fenced::{Held, Then};
use super::operation::{LeasedOperation, RenewableLease};

/// A leased document. Every write of the guard carries the fence of the lease and renews the lease.
/// After the lease is lost or broken, a write fails with [`LeaseError::Lost`] and changes nothing.
///
/// An expired lease still fences until another holder takes it, so a late write of the guard may
/// succeed and does no harm.
///
/// Dropping the guard releases the lease in the background if a Tokio runtime runs. Otherwise the
/// lease expires. [`release`](Self::release) waits for the release;
/// [`release_with`](Self::release_with) combines it with the last change.
///
/// ```
/// use cdb_coordination::Leases;
/// use cdb_model::{Batch, Document as _, Patch};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, Shop, order};
/// # shop::with_shop(async |shop| {
///
/// shop.run(order(1).create()).await?;
/// let leases = Leases::new(&shop, "packer-1");
/// let mut guard = leases.acquire(&OrderKey::new("ann", 1)).await?;
/// guard.run(Patch::new().set(Order::STATE, "packing")).await?;
/// guard.renew_if_due().await?; // while the work takes its time
/// let mut second = Batch::new("ann");
/// second.add(order(2).create())?; // takes place only if the lease is still held
/// let split = Patch::new().set(Order::STATE, "split");
/// guard.release_with((split, second)).await?;
/// # Ok(()) }).unwrap();
/// ```
pub struct LeaseGuard<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    held: Held<C, D>,
}

impl<C, D> LeaseGuard<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    pub(super) fn new(held: Held<C, D>) -> Self {
        Self { held }
    }

    /// The document as this guard last read or replaced it. Patches show after
    /// [`refresh`](Self::refresh).
    pub fn document(&self) -> &D {
        &self.held.stored.document
    }

    /// The document with its id and version.
    pub fn stored(&self) -> &Stored<D> {
        &self.held.stored
    }

    /// The fencing token, larger than that of every holder before. Pass it to other systems that
    /// can refuse a smaller one.
    pub fn token(&self) -> u64 {
        self.held.token
    }

    /// For how long the lease is certain to be held. Zero once another holder may take the
    /// document.
    pub fn remaining(&self) -> Duration {
        let now = Instant::now();
        self.held.valid_until.saturating_duration_since(now)
    }

    /// For how long [`renew_if_due`](Self::renew_if_due) has nothing to do.
    pub(crate) fn until_due(&self) -> Duration {
        self.remaining().saturating_sub(self.held.duration / 2)
    }

    /// Renews the lease for its whole duration.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when the lease is no longer held.
    pub async fn renew(&mut self) -> Result<(), LeaseError> {
        self.held.renew().await
    }

    /// Renews the lease if less than half of its duration is left. Returns whether it did.
    ///
    /// # Errors
    /// As [`renew`](Self::renew).
    pub async fn renew_if_due(&mut self) -> Result<bool, LeaseError> {
        let due = self.until_due().is_zero();
        if due {
            self.renew().await?;
        }
        Ok(due)
    }

    /// Reads the latest version of the document, with the patches of this guard and the changes of
    /// writers without a lease.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when the lease is no longer held.
    pub async fn refresh(&mut self) -> Result<&D, LeaseError> {
        self.held.refresh().await?;
        Ok(self.document())
    }

    /// Executes an operation under the lease, and renews the lease: a patch, a replacement, or
    /// `(patch, batch)` for other operations on the partition together with a patch. A patch may
    /// have nine changes, because the lease is the tenth. Its own condition holds besides the fence.
    /// The lease field of a replacement is ignored.
    ///
    /// ```compile_fail,E0277
    /// # use cdb_coordination::LeaseError;
    /// # use cdb_coordination::lease::LeaseGuard;
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// # use shop::{Order, Shop};
    /// async fn cancel(mut order: LeaseGuard<Shop, Order>) -> Result<(), LeaseError> {
    ///     let cancelled = order.stored().delete();
    ///     order.run(cancelled).await // a deletion ends the lease: `order.release_with(cancelled)`
    /// }
    /// ```
    ///
    /// # Errors
    /// - [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when the lease is no longer held.
    /// - [`Changed`](LeaseError::Changed) when the condition of the patch does not hold, or a writer
    ///   without a lease has written the document since the version that is replaced.
    /// - [`Unread`](LeaseError::Unread) for a replacement after a patch that was not read.
    /// - [`OtherDocument`](LeaseError::OtherDocument) and
    ///   [`LeasedInBatch`](LeaseError::LeasedInBatch) for a misplaced operation.
    /// - [`Client`](LeaseError::Client) when another operation of the batch failed. The patch is
    ///   operation 0.
    pub async fn run<O>(&mut self, operation: O) -> Result<(), LeaseError>
    where
        O: LeasedOperation<C, D> + RenewableLease,
    {
        self.held.run(operation, Then::Keep).await
    }

    /// Releases the lease.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when the lease was no longer held.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.release_with(Patch::new()).await
    }

    /// Executes an operation and releases the lease in one write. A deletion ends the lease too.
    ///
    /// # Errors
    /// As [`run`](Self::run). The guard then releases the lease in the background, without the
    /// change.
    pub async fn release_with<O>(mut self, operation: O) -> Result<(), LeaseError>
    where
        O: LeasedOperation<C, D>,
    {
        self.try_release_with(operation).await
    }

    /// As [`release_with`](Self::release_with), but the guard keeps the lease after an error.
    pub(crate) async fn try_release_with<O>(&mut self, operation: O) -> Result<(), LeaseError>
    where
        O: LeasedOperation<C, D>,
    {
        self.held.run(operation, Then::Release).await
    }
}

impl<C, D> Drop for LeaseGuard<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    fn drop(&mut self) {
        if self.held.ended.is_some() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.held.release_unconfirmed());
        }
    }
}

impl<C, D> fmt::Debug for LeaseGuard<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard")
            .field("id", &self.held.stored.id)
            .field("token", &self.held.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
