//! The writes of a lease's holder: each carries the fence of the holder's last write, and a mark of
//! its own.
//!
//! The mark tells after a lost answer whether the write took place. The fence makes sending again
//! harmless: a write that arrives twice finds the fence moved by its first arrival. So a write
//! under a lease takes place once or not at all, increments included.

use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use cdb_model::{
    Batch, Container, DocumentKey as _, ETag, Leasable, Lease, MemberOf, Patch, Stored, is_same,
};
use tokio::time::Instant;

use super::error::LeaseError;
use super::fenced_write::{Fenced, FencedWrite, Found, execute_fenced, is_at_fence};
use super::health::Event;
use super::lock::fresh_mark;

/// A leased document, as its holder knows it.
#[derive(Debug)]
pub(super) struct Held<C, D> {
    pub(super) container: ContainerClient<C>,
    /// With the lease of the last write.
    pub(super) stored: Stored<D>,
    pub(super) token: u64,
    pub(super) duration: Duration,
    /// By the monotonic clock, from before the last write was sent: never later than in the
    /// service's time.
    pub(super) valid_until: Instant,
    /// The token of the document when the lease was released or lost; `None` while the lease is
    /// held.
    pub(super) ended: Option<u64>,
    /// Why `stored` may not show the document of its ETag; `None` if it does.
    pub(super) unread: Option<Unread>,
    /// The leases that writes with an unknown outcome leave. The first of them that the service
    /// carries out moves the fence, which refuses the others.
    pub(super) unfinished: Vec<Lease>,
}

/// Why the holder has to read the document before it replaces or deletes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unread {
    /// The holder has patched it.
    Patched,
    /// A writer without a lease has changed it, or may have.
    Changed,
}

/// What a write does with the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    Release,
    Delete,
}

/// The lease before and after one write.
#[derive(Debug)]
pub(super) struct Step {
    before: Lease,
    pub(super) after: Lease,
    then: Then,
    begun: Instant,
}

/// What is sent.
pub(super) enum Write<'a, C, D> {
    Patch(&'a Patch<D>),
    /// A patch of the version that the holder knows.
    PatchSeen(&'a Patch<D>),
    Replace(&'a D),
    Delete,
    Batch(&'a Batch<C>),
}

/// A batch that begins with the fence of a lease: all of it takes place while the lease is held, or
/// nothing. Made by [`LeaseGuard::begin`](super::LeaseGuard::begin).
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
/// let mut both = guard.begin(Patch::new().set(Order::STATE, "split"))?;
/// both.batch.add(order(2).create())?; // takes place only if the lease is still held
/// guard.commit(both).await?;
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct LeasedBatch<C> {
    /// Takes further operations on the same partition.
    pub batch: Batch<C>,
    pub(super) step: Step,
}

impl<C, D> Held<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    pub(super) fn step(&self, then: Then) -> Step {
        self.step_from(self.stored.document.lease(), then)
    }

    /// As [`step`](Self::step), after it is known which unfinished write has taken place.
    pub(super) async fn next_step(&mut self, then: Then) -> Result<Step, LeaseError> {
        self.check_held()?;
        if !self.unfinished.is_empty() {
            let latest = self.container.latest_committed();
            if let Some(found) = latest.read(&self.stored).await? {
                self.adopt(&found);
            }
        }
        Ok(self.step(then))
    }

    fn step_from(&self, before: &Lease, then: Then) -> Step {
        let (now, mark) = (self.container.now(), fresh_mark());
        Step {
            after: match then {
                Then::Keep => before.kept(&mark, now + self.duration),
                Then::Release | Then::Delete => before.given_back(&mark, now),
            },
            before: before.clone(),
            then,
            begun: Instant::now(),
        }
    }

    /// Adds the fence and the lease of a step to a patch.
    pub(super) fn fenced(step: &Step, patch: Patch<D>) -> Patch<D> {
        let paths = D::LEASE_PATHS;
        paths
            .set(patch, &step.after)
            .when(paths.fence(&step.before))
    }

    /// Sends a write until its outcome is known.
    pub(super) async fn write(
        &mut self,
        step: &Step,
        write: &Write<'_, C, D>,
    ) -> Result<(), LeaseError> {
        self.check_held()?;
        if step.before != *self.stored.document.lease() {
            let id = self.stored.id.to_string();
            return Err(LeaseError::ForeignBatch { id });
        }
        // Until the outcome is known: the caller may drop this future.
        let keeps = step.then == Then::Keep;
        self.unfinished.extend(keeps.then(|| step.after.clone()));
        let mut fenced = FencedStep {
            held: self,
            step,
            write,
            found: None,
        };
        let outcome = execute_fenced(&mut fenced).await?;
        let found = fenced.found;
        if keeps && matches!(outcome, Fenced::Refused(_)) {
            self.unfinished.pop();
        }
        let etag = match outcome {
            Fenced::Committed(Some(etag)) => etag,
            Fenced::Committed(None) | Fenced::CommittedBefore => found,
            Fenced::Refused(error) | Fenced::Unknown(Some(error)) if !is_at_fence(&error) => {
                return Err(error.into());
            }
            // The lease is still held, or `find_out` would have failed.
            _ => return Err(LeaseError::changed(&self.stored)),
        };
        self.advance(step, etag);
        Ok(())
    }

    /// Takes over what a step left.
    fn advance(&mut self, step: &Step, etag: Option<ETag>) {
        self.stored.document.set_lease(step.after.clone());
        if let Some(etag) = etag {
            self.stored.etag = etag;
        }
        self.unfinished.clear();
        self.valid_until = step.begun + self.duration;
        self.ended = (step.then != Then::Keep).then(|| step.after.token());
        match step.then {
            Then::Keep => Event::RENEWED.count::<D>(),
            Then::Release | Then::Delete => Event::RELEASED.count::<D>(),
        }
    }

    /// Reads the latest version of the document, if the lease is still held.
    pub(super) async fn refresh(&mut self) -> Result<(), LeaseError> {
        self.check_held()?;
        let latest = self.container.latest_committed();
        let Some(found) = latest.read(&self.stored).await? else {
            return Err(self.gone());
        };
        let lease = found.document.lease();
        if lease != self.stored.document.lease() && !self.adopt(&found) {
            return Err(self.lost(lease.token()));
        }
        self.stored = found;
        self.unread = None;
        Ok(())
    }

    /// Takes over the lease of an unfinished write. Returns `false` if the document has the lease of
    /// no such write.
    fn adopt(&mut self, found: &Stored<D>) -> bool {
        let lease = found.document.lease();
        let is_ours = self.unfinished.contains(lease);
        if is_ours {
            self.stored.document.set_lease(lease.clone());
            self.stored.etag = found.etag.clone();
            self.unread = Some(Unread::Changed);
            self.unfinished.clear();
        }
        is_ours
    }

    /// Fails if a replacement or a deletion could undo a change that the holder has not read.
    pub(super) fn check_read(&self) -> Result<(), LeaseError> {
        self.check_held()?;
        match self.unread {
            None => Ok(()),
            Some(Unread::Changed) => Err(LeaseError::changed(&self.stored)),
            Some(Unread::Patched) => {
                let id = self.stored.id.to_string();
                Err(LeaseError::Unread { id })
            }
        }
    }

    fn check_held(&self) -> Result<(), LeaseError> {
        self.ended
            .map_or(Ok(()), |current| Err(self.error(current)))
    }

    /// Notes that the document was deleted.
    fn gone(&mut self) -> LeaseError {
        let _lost = self.lost(self.token);
        LeaseError::gone::<D>(&self.stored.id)
    }

    /// Notes that the lease was lost to the holder of the token `current`.
    fn lost(&mut self, current: u64) -> LeaseError {
        self.ended = Some(current);
        Event::LOST.count::<D>();
        self.error(current)
    }

    fn error(&self, current: u64) -> LeaseError {
        LeaseError::Lost {
            id: self.stored.id.to_string(),
            token: self.token,
            current,
        }
    }

    /// Releases the lease, of the last known or an unfinished write, without finding out whether it
    /// is still held. After a failure the lease expires.
    pub(super) fn release_unconfirmed(&self) -> impl Future<Output = ()> + Send + use<C, D> {
        let container = self.container.clone();
        let document = &self.stored.document;
        let (partition, key) = (document.partition_key(), document.key());
        let leases = std::iter::once(document.lease()).chain(&self.unfinished);
        let release = |lease| Self::fenced(&self.step_from(lease, Then::Release), Patch::new());
        let patches: Vec<_> = leases.map(release).collect();
        async move {
            for patch in patches {
                match container.run(patch.at(key.in_partition(&partition))).await {
                    Ok(_) => return Event::RELEASED.count::<D>(),
                    Err(error) => {
                        tracing::debug!(%error, "a dropped guard did not release its lease");
                    }
                }
            }
        }
    }
}

/// A write under a lease, for [`execute_fenced`].
struct FencedStep<'a, C, D> {
    held: &'a mut Held<C, D>,
    step: &'a Step,
    write: &'a Write<'a, C, D>,
    /// The version with the mark of the step.
    found: Option<ETag>,
}

impl<C, D> FencedWrite for FencedStep<'_, C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    type Container = C;
    /// The version that the write left; `None` after a deletion.
    type Answer = Option<ETag>;
    type Error = LeaseError;

    fn container(&self) -> &ContainerClient<C> {
        &self.held.container
    }

    async fn send(&self) -> Result<Option<ETag>, Error> {
        let (container, stored) = (&self.held.container, &self.held.stored);
        match self.write {
            Write::Patch(patch) => {
                let (partition, key) = (stored.document.partition_key(), stored.document.key());
                let written = container
                    .run(patch.at(key.in_partition(&partition)))
                    .await?;
                Ok(Some(written.etag))
            }
            Write::PatchSeen(patch) => {
                let written = container.run(patch.at(stored)).await?;
                Ok(Some(written.etag))
            }
            Write::Replace(document) => {
                let written = container
                    .run(document.replace().if_match(&stored.etag))
                    .await?;
                Ok(Some(written.etag))
            }
            Write::Delete => {
                container.run(stored.delete()).await?;
                Ok(None)
            }
            Write::Batch(batch) => {
                let outcome = container.execute(batch).await?;
                Ok(outcome.etag(0.into()).cloned())
            }
        }
    }

    /// Fails when the lease was lost.
    async fn find_out(&mut self, latest: &ContainerClient<C>) -> Result<Found, LeaseError> {
        let (held, step) = (&mut *self.held, self.step);
        let Some(found) = latest.read(&held.stored).await? else {
            return match step.then {
                Then::Delete => Ok(Found::Done),
                Then::Keep | Then::Release => Err(held.gone()),
            };
        };
        let lease = found.document.lease();
        if lease.mark() == step.after.mark() {
            held.stored.document.set_lease(step.after.clone());
            let left = match self.write {
                Write::Replace(document) => document,
                _ => &held.stored.document,
            };
            // A writer without a lease may have changed the document since.
            if !is_same(&found.document, left) {
                held.unread = Some(Unread::Changed);
            }
            self.found = Some(found.etag);
            return Ok(Found::Done);
        }
        if (lease.token(), lease.mark()) == (step.before.token(), step.before.mark()) {
            return Ok(Found::Unchanged);
        }
        if held.adopt(&found) {
            return Ok(Found::Lost);
        }
        Err(held.lost(lease.token()))
    }

    fn unread(lost: Error, error: LeaseError) -> LeaseError {
        match error {
            LeaseError::Client(_) => lost.into(),
            error => error,
        }
    }
}
