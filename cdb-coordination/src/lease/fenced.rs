//! What a holder writes: every write carries the fence of his last one and a mark of its own.
//!
//! The mark answers "did it happen?" after a lost answer, and it makes sending again harmless: a write that arrives twice
//! finds the fence moved by its first arrival. So a write under a lease takes place once or not at all, increments included.

use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use cdb_model::{Batch, Container, ETag, Leasable, Lease, MemberOf, Patch, Stored};
use tokio::time::Instant;

use super::error::LeaseError;
use super::health::Event;
use super::lock::{fresh_mark, is_lost_race};

/// How often a write goes out whose outcome stays open although the document could be read in between.
const ATTEMPTS: u32 = 4;

/// A document in somebody's hands, as far as he knows.
#[derive(Debug)]
pub(super) struct Held<C, D> {
    pub(super) container: ContainerClient<C>,
    /// With the lease of the last write.
    pub(super) stored: Stored<D>,
    pub(super) token: u64,
    pub(super) duration: Duration,
    /// By the monotonic clock, from before the last write was sent: never later than the service sees it.
    pub(super) valid_until: Instant,
    /// The token that the document had when it was given back or lost.
    pub(super) over: Option<u64>,
    /// Whether a patch was written that `stored` does not show.
    pub(super) is_unread: bool,
}

/// What becomes of the lease in a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    GiveBack,
    Delete,
}

/// One write under the lease: what it must find and what it leaves.
#[derive(Debug)]
pub(super) struct Step {
    found: Lease,
    left: Lease,
    then: Then,
    sent: Instant,
}

/// What is sent.
pub(super) enum Write<'a, C, D> {
    Patch(&'a Patch<D>),
    Replace(&'a D),
    Delete,
    Batch(&'a Batch<C>),
}

/// A batch that begins with the fence of a lease: all of it takes place while the lease is held, or nothing. Made by
/// [`LeaseGuard::begin`](super::LeaseGuard::begin).
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
/// let mut both = guard.begin(Patch::new().set(Order::STATE, "split".to_owned()))?;
/// both.batch.create(&order(2))?; // takes place only if the lease is still held
/// guard.commit(both).await?;
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct LeasedBatch<C> {
    /// Takes whatever else belongs to the same partition.
    pub batch: Batch<C>,
    pub(super) step: Step,
}

impl<C, D> Held<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    pub(super) fn step(&self, then: Then) -> Step {
        let (now, mark) = (self.container.now(), fresh_mark());
        let found = self.stored.document.lease();
        Step {
            left: match then {
                Then::Keep => found.kept(&mark, now + self.duration),
                Then::GiveBack | Then::Delete => found.given_back(&mark, now),
            },
            found: found.clone(),
            then,
            sent: Instant::now(),
        }
    }

    /// The patch as it is sent.
    pub(super) fn fenced(step: &Step, patch: Patch<D>) -> Patch<D> {
        let paths = D::LEASE_PATHS;
        paths
            .set(patch, &step.left)
            .and_when(paths.fence(&step.found))
    }

    /// The document as a step leaves it.
    pub(super) fn leased(step: &Step, mut document: D) -> D {
        document.set_lease(step.left.clone());
        document
    }

    /// Writes, and knows afterwards whether it happened.
    pub(super) async fn write(
        &mut self,
        step: &Step,
        write: &Write<'_, C, D>,
    ) -> Result<(), LeaseError> {
        if let Some(current) = self.over {
            return Err(self.lost(current));
        }
        if step.found != *self.stored.document.lease() {
            let id = self.stored.id.to_string();
            return Err(LeaseError::ForeignBatch { id });
        }
        let etag = self.carried_out(step, write).await?;
        self.note(step, etag);
        Ok(())
    }

    /// The version that a write left; none after a deletion.
    async fn carried_out(
        &mut self,
        step: &Step,
        write: &Write<'_, C, D>,
    ) -> Result<Option<ETag>, LeaseError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match self.send(write).await {
                Ok(etag) => return Ok(etag),
                Err(error) => error,
            };
            // The fence is the first operation of a batch; any other one that fails says something about itself.
            let at_the_fence = error.operation_index().unwrap_or(0) == 0;
            let is_refused = at_the_fence && is_lost_race(&error);
            if !(error.is_ambiguous() || is_refused) {
                return Err(error.into());
            }
            if let Some(etag) = self.happened(step).await? {
                return Ok(etag);
            }
            if !error.is_ambiguous() {
                return Err(LeaseError::changed(&self.stored));
            }
            if attempts == ATTEMPTS {
                return Err(error.into());
            }
        }
    }

    async fn send(&self, write: &Write<'_, C, D>) -> Result<Option<ETag>, Error> {
        let (container, seen) = (&self.container, &self.stored);
        let (partition, key) = (seen.document.partition_key(), seen.document.key());
        match write {
            Write::Patch(patch) => {
                let written = container.patch_in(&partition, &key, patch).await?;
                Ok(Some(written.etag))
            }
            Write::Replace(document) => {
                let written = container.replace_if_match(*document, &seen.etag).await?;
                Ok(Some(written.etag))
            }
            Write::Delete => {
                container.delete_stored(seen).await?;
                Ok(None)
            }
            Write::Batch(batch) => {
                let outcome = container.execute(batch).await?;
                Ok(outcome.etag(0.into()).cloned())
            }
        }
    }

    /// Whether a write of unknown outcome took place; the version it left, none after a deletion.
    ///
    /// # Errors
    /// When it did not and the lease is lost.
    async fn happened(&mut self, step: &Step) -> Result<Option<Option<ETag>>, LeaseError> {
        let now = self.container.latest_committed();
        let Some(found) = now.read_stored(&self.stored).await? else {
            if step.then == Then::Delete {
                return Ok(Some(None));
            }
            self.end(self.token);
            return Err(LeaseError::gone::<D>(&self.stored.id));
        };
        let lease = found.document.lease();
        if lease.mark() == step.left.mark() {
            return Ok(Some(Some(found.etag)));
        }
        if (lease.token(), lease.mark()) == (step.found.token(), step.found.mark()) {
            return Ok(None);
        }
        self.end(lease.token());
        Err(self.lost(lease.token()))
    }

    /// Takes over what a step left.
    fn note(&mut self, step: &Step, etag: Option<ETag>) {
        self.stored.document.set_lease(step.left.clone());
        if let Some(etag) = etag {
            self.stored.etag = etag;
        }
        self.valid_until = step.sent + self.duration;
        self.over = (step.then != Then::Keep).then(|| step.left.token());
        match step.then {
            Then::Keep => Event::Renewed.count::<D>(),
            Then::GiveBack | Then::Delete => Event::Released.count::<D>(),
        }
    }

    /// Reads the document as it is now, if the lease is still held.
    pub(super) async fn refresh(&mut self) -> Result<(), LeaseError> {
        if let Some(current) = self.over {
            return Err(self.lost(current));
        }
        let now = self.container.latest_committed();
        let found = now.read_stored(&self.stored).await?;
        let Some(found) = found else {
            self.end(self.token);
            return Err(LeaseError::gone::<D>(&self.stored.id));
        };
        if found.document.lease() != self.stored.document.lease() {
            let current = found.document.lease().token();
            self.end(current);
            return Err(self.lost(current));
        }
        self.stored = found;
        self.is_unread = false;
        Ok(())
    }

    fn end(&mut self, current: u64) {
        self.over = Some(current);
        Event::Lost.count::<D>();
    }

    fn lost(&self, current: u64) -> LeaseError {
        LeaseError::Lost {
            id: self.stored.id.to_string(),
            token: self.token,
            current,
        }
    }

    /// Gives the lease back without looking whether it worked: where not, it expires.
    pub(super) fn farewell(&self) -> impl Future<Output = ()> + Send + use<C, D> {
        let container = self.container.clone();
        let document = &self.stored.document;
        let (partition, key) = (document.partition_key(), document.key());
        let patch = Self::fenced(&self.step(Then::GiveBack), Patch::new());
        async move {
            match container.patch_in(&partition, &key, &patch).await {
                Ok(_) => Event::Released.count::<D>(),
                Err(error) => tracing::debug!(%error, "a dropped lease is left to expire"),
            }
        }
    }
}
