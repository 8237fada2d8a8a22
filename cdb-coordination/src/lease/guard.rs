//! The lease of one document as a value.

use std::fmt;
use std::time::Duration;

use cdb_model::{Batch, Container, Leasable, MemberOf, Patch, Stored};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::error::LeaseError;
use super::fenced::{Held, LeasedBatch, Then, Unread, Write};

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
/// use cdb_model::{Document as _, Patch};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// shop.run(order(1).create()).await?;
/// let leases = Leases::new(&shop, "packer-1");
/// let mut guard = leases.acquire(&OrderKey::new("ann", 1)).await?;
/// guard.patch(Patch::new().set(Order::STATE, "packing")).await?;
/// guard.renew_if_due().await?; // while the work takes its time
/// guard.release_with(Patch::new().set(Order::STATE, "packed")).await?;
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
        if self.held.unread.is_none() {
            let step = self.held.next_step(Then::Keep).await?;
            let seen = Held::fenced(&step, Patch::new());
            match self.held.write(&step, &Write::PatchSeen(&seen)).await {
                Err(LeaseError::Changed { .. }) => self.held.unread = Some(Unread::Changed),
                renewed => return renewed,
            }
        }
        let step = self.held.next_step(Then::Keep).await?;
        let patch = Held::fenced(&step, Patch::new());
        self.held.write(&step, &Write::Patch(&patch)).await
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

    /// Patches the document. The patch may have nine operations, because the lease is the tenth.
    /// Its own condition holds besides the fence.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when the lease is no longer held,
    /// [`Changed`](LeaseError::Changed) when the patch's own condition does not hold.
    pub async fn patch(&mut self, patch: Patch<D>) -> Result<(), LeaseError> {
        self.write_patch(patch, Then::Keep).await
    }

    /// Replaces the document that this guard has read. The lease field of `document` is ignored.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when the lease is no longer held,
    /// [`Changed`](LeaseError::Changed) when a writer without a lease has written the document
    /// since it was read, [`Unread`](LeaseError::Unread) when this guard has patched the document
    /// since.
    pub async fn replace(&mut self, document: D) -> Result<(), LeaseError> {
        self.write_document(document, Then::Keep).await
    }

    /// Deletes the document.
    ///
    /// # Errors
    /// As [`replace`](Self::replace). The guard then releases the lease.
    pub async fn delete(mut self) -> Result<(), LeaseError> {
        let step = self.held.next_step(Then::Delete).await?;
        self.held.check_read()?;
        self.held.write(&step, &Write::Delete).await
    }

    /// Releases the lease.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when the lease was no longer held.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.release_with(Patch::new()).await
    }

    /// Patches the document and releases the lease in one write.
    ///
    /// # Errors
    /// As [`patch`](Self::patch). The guard then releases the lease in the background, without the
    /// change.
    pub async fn release_with(mut self, patch: Patch<D>) -> Result<(), LeaseError> {
        self.write_patch(patch, Then::Release).await
    }

    /// Replaces the document and releases the lease in one write.
    ///
    /// # Errors
    /// As [`replace`](Self::replace). The guard then releases the lease in the background, without
    /// the replacement.
    pub async fn replace_and_release(mut self, document: D) -> Result<(), LeaseError> {
        self.write_document(document, Then::Release).await
    }

    /// Begins a batch that takes place under the lease or not at all. `patch` changes the document;
    /// add other operations on its partition to [`LeasedBatch::batch`] and send them with
    /// [`commit`](Self::commit).
    ///
    /// # Errors
    /// When the patch does not fit into a batch.
    pub fn begin(&self, patch: Patch<D>) -> Result<LeasedBatch<C>, LeaseError> {
        self.batch(patch, Then::Keep)
    }

    /// Begins a batch as [`begin`](Self::begin) does, and releases the lease in it.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_release(&self, patch: Patch<D>) -> Result<LeasedBatch<C>, LeaseError> {
        self.batch(patch, Then::Release)
    }

    /// Sends a batch that this guard began after its last write.
    ///
    /// # Errors
    /// As [`patch`](Self::patch). [`ForeignBatch`](LeaseError::ForeignBatch) for a batch of another
    /// guard or from before another write; [`Client`](LeaseError::Client) when another operation of
    /// the batch failed.
    pub async fn commit(&mut self, batch: LeasedBatch<C>) -> Result<(), LeaseError> {
        let write = Write::Batch(&batch.batch);
        self.held.write(&batch.step, &write).await?;
        self.held.unread = Some(Unread::Patched);
        Ok(())
    }

    fn batch(&self, patch: Patch<D>, then: Then) -> Result<LeasedBatch<C>, LeaseError> {
        let document = self.document();
        let step = self.held.step(then);
        let mut batch = Batch::new(document.partition_key());
        batch.add(Held::fenced(&step, patch).at(&document.key()))?;
        Ok(LeasedBatch { batch, step })
    }

    async fn write_patch(&mut self, patch: Patch<D>, then: Then) -> Result<(), LeaseError> {
        let step = self.held.next_step(then).await?;
        let patch = Held::fenced(&step, patch);
        self.held.write(&step, &Write::Patch(&patch)).await?;
        self.held.unread = Some(Unread::Patched);
        Ok(())
    }

    async fn write_document(&mut self, mut document: D, then: Then) -> Result<(), LeaseError> {
        let step = self.held.next_step(then).await?;
        self.held.check_read()?;
        document.set_lease(step.after.clone());
        self.held.write(&step, &Write::Replace(&document)).await?;
        self.held.stored.document = document;
        Ok(())
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
