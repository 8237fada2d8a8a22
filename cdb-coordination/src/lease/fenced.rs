//! The writes of a lease's holder: each carries the fence of the holder's last write, and a mark of
//! its own.
//!
//! The mark tells after a lost answer whether the write took place. The fence makes sending again
//! harmless: a write that arrives twice finds the fence moved by its first arrival. So a write
//! under a lease takes place once or not at all, increments included.

use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::document::DocumentAddress;
use cdb_model::operation::{Leasable, Lease, Target as _};
use cdb_model::stored::is_same;
use cdb_model::{Batch, Container, ETag, Patch, Stored};
use tokio::time::Instant;

use super::error::LeaseError;
use super::fenced_write::{Fenced, FencedWrite, Found, execute_fenced, is_at_fence};
use super::health::Event;
use super::lock::fresh_mark;
use super::operation::{Kind, LeasedOperation};

/// A leased document, as its holder knows it.
#[derive(Debug)]
pub(super) struct Held<C, D> {
    pub(super) container: ContainerClient<C>,
    /// The version that the holder has read or replaced, with the lease of the last write.
    pub(super) stored: Stored<D>,
    /// The version after the last write. While nothing is unread, renewals alone divide it from that
    /// of `stored`: each is conditional on the version before it.
    pub(super) current: ETag,
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
struct Step {
    before: Lease,
    after: Lease,
    then: Then,
    begun: Instant,
}

/// What is sent.
pub(super) enum Write<C, D> {
    Patch(Patch<D, DocumentAddress<D>>),
    Replace(Stored<D>),
    Delete,
    Batch(Batch<C>),
}

impl<C, D> Held<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    /// Executes an operation under the lease.
    pub(super) async fn run(
        &mut self,
        operation: impl LeasedOperation<C, D>,
        then: Then,
    ) -> Result<(), LeaseError> {
        let change = operation.into_change()?;
        let then = match change.kind {
            Kind::Delete => Then::Delete,
            _ => then,
        };
        let step = self.next_step(then).await?;
        if let Some(address) = &change.address {
            self.check_address(address)?;
        }
        let version = change
            .address
            .as_ref()
            .and_then(DocumentAddress::required_version);
        let write = self.write_of(change.kind, version.is_some(), &step)?;
        self.send(&step, &write).await?;
        match write {
            Write::Replace(written) => {
                self.stored.document = written.document;
                self.stored.etag = self.current.clone();
            }
            Write::Patch(_) | Write::Batch(_) => self.unread = Some(Unread::Patched),
            Write::Delete => {}
        }
        Ok(())
    }

    /// Renews the lease.
    pub(super) async fn renew(&mut self) -> Result<(), LeaseError> {
        if self.unread.is_none() {
            let step = self.next_step(Then::Keep).await?;
            let seen = Write::Patch(self.patch(&step, &Patch::new(), true));
            match self.send(&step, &seen).await {
                Err(LeaseError::Changed { .. }) => self.unread = Some(Unread::Changed),
                renewed => return renewed,
            }
        }
        let step = self.next_step(Then::Keep).await?;
        let patch = Write::Patch(self.patch(&step, &Patch::new(), false));
        self.send(&step, &patch).await
    }

    /// Fails if an operation is on another document, or on another version than the holder knows.
    fn check_address(&self, address: &DocumentAddress<D>) -> Result<(), LeaseError> {
        let (id, partition) = (address.id()?, self.stored.document.partition_key());
        if *id != self.stored.id || *address.partition() != partition {
            return Err(LeaseError::OtherDocument {
                id: self.stored.id.to_string(),
                found: id.to_string(),
            });
        }
        let is_known = address.required_version().is_none_or(|version| {
            *version == self.current || (*version == self.stored.etag && self.unread.is_none())
        });
        if is_known {
            Ok(())
        } else {
            Err(LeaseError::changed(&self.stored))
        }
    }

    fn write_of(
        &self,
        kind: Kind<C, D>,
        is_versioned: bool,
        step: &Step,
    ) -> Result<Write<C, D>, LeaseError> {
        Ok(match kind {
            Kind::Patch(patch) => Write::Patch(self.patch(step, &patch, is_versioned)),
            Kind::Replace(mut document) => {
                self.check_read()?;
                document.set_lease(step.after.clone());
                Write::Replace(Stored {
                    id: self.stored.id.clone(),
                    document,
                    etag: self.current.clone(),
                    timestamp: self.stored.timestamp,
                })
            }
            Kind::Delete => {
                self.check_read()?;
                Write::Delete
            }
            Kind::Batch(patch, others) => {
                let id = &self.stored.id;
                if (0..others.len()).any(|index| others.id(index.into()) == Some(id)) {
                    let id = id.to_string();
                    return Err(LeaseError::LeasedInBatch { id });
                }
                let mut batch = Batch::new(self.stored.document.partition_key());
                batch.add(self.patch(step, &patch, false))?;
                batch.append(&others)?;
                Write::Batch(batch)
            }
        })
    }

    /// The patch of the leased document, with fence and lease of a step; of its current version, or
    /// of any.
    fn patch(
        &self,
        step: &Step,
        patch: &Patch<D>,
        is_versioned: bool,
    ) -> Patch<D, DocumentAddress<D>> {
        let any = self.stored.address().unconditional();
        let address = if is_versioned {
            any.if_match(&self.current)
        } else {
            any
        };
        Self::fenced(step, patch.at(address))
    }

    /// Begins a write, after it is known which unfinished write has taken place.
    async fn next_step(&mut self, then: Then) -> Result<Step, LeaseError> {
        self.check_held()?;
        if !self.unfinished.is_empty() {
            let latest = self.container.latest_committed();
            if let Some(found) = latest.read(&self.stored).await? {
                self.adopt(&found);
            }
        }
        Ok(self.step_from(self.stored.document.lease(), then))
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
    fn fenced<T>(step: &Step, patch: Patch<D, T>) -> Patch<D, T> {
        let paths = D::LEASE_PATHS;
        paths
            .set(patch, &step.after)
            .when(paths.fence(&step.before))
    }

    /// Sends a write until its outcome is known.
    async fn send(&mut self, step: &Step, write: &Write<C, D>) -> Result<(), LeaseError> {
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
            self.current = etag;
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
        self.current = found.etag.clone();
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
            self.current = found.etag.clone();
            self.unread = Some(Unread::Changed);
            self.unfinished.clear();
        }
        is_ours
    }

    /// Fails if a replacement or a deletion could undo a change that the holder has not read.
    fn check_read(&self) -> Result<(), LeaseError> {
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
        let leases = std::iter::once(self.stored.document.lease()).chain(&self.unfinished);
        let release =
            |lease| self.patch(&self.step_from(lease, Then::Release), &Patch::new(), false);
        let patches: Vec<_> = leases.map(release).collect();
        async move {
            for patch in patches {
                match container.run(patch).await {
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
    write: &'a Write<C, D>,
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
        let container = &self.held.container;
        match self.write {
            Write::Patch(patch) => Ok(Some(container.run(patch.clone()).await?.etag)),
            Write::Replace(stored) => Ok(Some(container.run(stored.replace()).await?.etag)),
            Write::Delete => {
                let held = &self.held;
                container
                    .run(held.stored.delete().if_match(&held.current))
                    .await?;
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
                Write::Replace(written) => &written.document,
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
