//! The lease of one document as a value: who has it may write, and it is given back when it goes.

use std::fmt;
use std::time::Duration;

use cdb_model::{Batch, Container, Leasable, MemberOf, Patch, Stored};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::error::LeaseError;
use super::fenced::{Held, LeasedBatch, Then, Write};

/// A leased document. Every write goes through it and carries the fence of the lease: once somebody else holds the document,
/// or an operator broke the lease, the write is refused with [`LeaseError::Lost`] and nothing of it takes place. Every
/// write that succeeds renews the lease.
///
/// A lease that expired and that nobody took over still fences, so a write that comes late does no harm and may succeed.
///
/// Dropping the guard gives the lease back in the background where a tokio runtime runs, and else leaves it to expire.
/// [`release`](Self::release) does it for certain, and [`release_with`](Self::release_with) together with the last change.
///
/// ```
/// use cdb_coordination::Leases;
/// use cdb_model::Patch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// let leases = Leases::new(&shop, "packer-1");
/// let mut guard = leases.acquire(&OrderKey::new("ann", 1_u64)).await?;
/// guard.patch(Patch::new().set(Order::STATE, "packing".to_owned())).await?;
/// guard.renew_if_due().await?; // while the work takes its time
/// guard.release_with(Patch::new().set(Order::STATE, "packed".to_owned())).await?;
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

    /// The document as this guard last read or replaced it; what it patched since shows after [`refresh`](Self::refresh).
    pub fn document(&self) -> &D {
        &self.held.stored.document
    }

    /// The document with its id and version.
    pub fn stored(&self) -> &Stored<D> {
        &self.held.stored
    }

    /// The fencing token: larger than that of every holder before. Other systems that are written to on behalf of the
    /// document can refuse whoever comes with a smaller one.
    pub fn token(&self) -> u64 {
        self.held.token
    }

    /// For how long nobody else can take the document, at least; zero once it may be taken.
    pub fn remaining(&self) -> Duration {
        let now = Instant::now();
        self.held.valid_until.saturating_duration_since(now)
    }

    /// Holds the document for the whole duration from now on.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when there is nothing to hold any more.
    pub async fn renew(&mut self) -> Result<(), LeaseError> {
        let step = self.held.step(Then::Keep);
        let patch = Held::fenced(&step, Patch::new());
        self.held.write(&step, &Write::Patch(&patch)).await
    }

    /// [`renew`](Self::renew), if less than half of the duration is left. Whether it was.
    ///
    /// # Errors
    /// The same.
    pub async fn renew_if_due(&mut self) -> Result<bool, LeaseError> {
        let due = self.remaining() < self.held.duration / 2;
        if due {
            self.renew().await?;
        }
        Ok(due)
    }

    /// Reads the document as it is now: with what this guard patched, and what others wrote without a lease.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when it is no longer this guard's.
    pub async fn refresh(&mut self) -> Result<&D, LeaseError> {
        self.held.refresh().await?;
        Ok(self.document())
    }

    /// Changes the document. The patch takes nine changes, since the lease is one; its own condition holds beside the fence.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when it is no longer this guard's,
    /// [`Changed`](LeaseError::Changed) when the patch's own condition does not hold.
    pub async fn patch(&mut self, patch: Patch<D>) -> Result<(), LeaseError> {
        self.write_patch(patch, Then::Keep).await
    }

    /// Puts `document` in the place of the one that this guard has read. Its lease field is of no matter.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when it is no longer this guard's,
    /// [`Changed`](LeaseError::Changed) when somebody without a lease wrote it since it was read,
    /// [`Unread`](LeaseError::Unread) when this guard has patched it since.
    pub async fn replace(&mut self, document: D) -> Result<(), LeaseError> {
        self.write_document(document, Then::Keep).await
    }

    /// Deletes the document.
    ///
    /// # Errors
    /// As [`replace`](Self::replace); the guard gives the lease back then.
    pub async fn delete(mut self) -> Result<(), LeaseError> {
        let step = self.held.step(Then::Delete);
        self.held.write(&step, &Write::Delete).await
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// [`Lost`](LeaseError::Lost) and [`Gone`](LeaseError::Gone) when there was nothing to give back.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.release_with(Patch::new()).await
    }

    /// Changes the document and gives the lease back in the same write.
    ///
    /// # Errors
    /// As [`patch`](Self::patch); the guard gives the lease back in the background then, without the change.
    pub async fn release_with(mut self, patch: Patch<D>) -> Result<(), LeaseError> {
        self.write_patch(patch, Then::Release).await
    }

    /// Replaces the document and gives the lease back in the same write.
    ///
    /// # Errors
    /// As [`replace`](Self::replace); the guard gives the lease back in the background then, without the replacement.
    pub async fn replace_and_release(mut self, document: D) -> Result<(), LeaseError> {
        self.write_document(document, Then::Release).await
    }

    /// Begins a batch that takes place under the lease or not at all: `patch` changes the document, what else belongs to its
    /// partition is added to [`LeasedBatch::batch`], and [`commit`](Self::commit) sends it.
    ///
    /// # Errors
    /// When the patch cannot be sent.
    pub fn begin(&self, patch: Patch<D>) -> Result<LeasedBatch<C>, LeaseError> {
        self.batch(patch, Then::Keep)
    }

    /// [`begin`](Self::begin) of the last batch: the lease is given back in it.
    ///
    /// # Errors
    /// The same.
    pub fn begin_release(&self, patch: Patch<D>) -> Result<LeasedBatch<C>, LeaseError> {
        self.batch(patch, Then::Release)
    }

    /// Carries out a batch that this guard has begun after its last write.
    ///
    /// # Errors
    /// As [`patch`](Self::patch); [`ForeignBatch`](LeaseError::ForeignBatch) for a batch of another guard or from before
    /// another write; [`Client`](LeaseError::Client) when another operation of the batch failed.
    pub async fn commit(&mut self, batch: LeasedBatch<C>) -> Result<(), LeaseError> {
        let write = Write::Batch(&batch.batch);
        self.held.write(&batch.step, &write).await?;
        self.held.is_unread = true;
        Ok(())
    }

    fn batch(&self, patch: Patch<D>, then: Then) -> Result<LeasedBatch<C>, LeaseError> {
        let document = self.document();
        let step = self.held.step(then);
        let mut batch = Batch::new(document.partition_key());
        batch.patch(&document.key(), &Held::fenced(&step, patch))?;
        Ok(LeasedBatch { batch, step })
    }

    async fn write_patch(&mut self, patch: Patch<D>, then: Then) -> Result<(), LeaseError> {
        let step = self.held.step(then);
        let patch = Held::fenced(&step, patch);
        self.held.write(&step, &Write::Patch(&patch)).await?;
        self.held.is_unread = true;
        Ok(())
    }

    async fn write_document(&mut self, document: D, then: Then) -> Result<(), LeaseError> {
        if self.held.is_unread {
            let id = self.held.stored.id.to_string();
            return Err(LeaseError::Unread { id });
        }
        let step = self.held.step(then);
        let document = Held::leased(&step, document);
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
