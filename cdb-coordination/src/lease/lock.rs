//! The core of every lock: an expiry in the service's time, a mark that is new with every write of the lock, one conditional
//! write, and an answer to "did it happen?" after a lost one.
//!
//! It does not know how a document stores the two values: [`Lockable`] says what they are, and the patch that writes them is
//! the caller's. So documents whose lock has a form of its own (`lockToken`, `lockedUntil`) are locked by the same steps as
//! those with a [`Lease`](cdb_model::Lease).

use cdb_client::{ContainerClient, Error};
use cdb_model::{Container, Document, ETag, Leasable, MemberOf, Patch, Stored, Timestamp};

/// A document that one process at a time works on.
pub trait Lockable: Document {
    /// The random text of the last write that took, kept or gave back the lock.
    fn lock_mark(&self) -> Option<&str>;

    /// When the lock ends or has ended; `None` when there is none.
    fn locked_until(&self) -> Option<Timestamp>;

    /// Whether anybody may lock it at this time.
    fn is_lockable(&self, now: Timestamp) -> bool {
        self.locked_until().is_none_or(|until| until <= now)
    }
}

impl<D: Leasable> Lockable for D {
    fn lock_mark(&self) -> Option<&str> {
        self.lease().mark()
    }

    fn locked_until(&self) -> Option<Timestamp> {
        let lease = self.lease();
        lease.holder().map(|_| lease.until())
    }
}

/// A mark that no write has had before.
pub fn fresh_mark() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Locks exactly the version that was seen: writes `patch`, which puts `mark` where [`Lockable::lock_mark`] finds it.
/// The new version, or `None` when somebody was faster or the document is gone.
///
/// # Errors
/// When the service cannot be reached or refuses the write itself.
pub async fn lock<C, D>(
    container: &ContainerClient<C>,
    seen: &Stored<D>,
    patch: &Patch<D>,
    mark: &str,
) -> Result<Option<ETag>, Error>
where
    C: Container,
    D: MemberOf<C> + Lockable,
{
    let written = container.patch_stored(seen, patch).await;
    let now = container.latest_committed();
    settle(
        written.map(|written| written.etag),
        mark,
        now.read_stored(seen),
    )
    .await
}

/// What a conditional write of a lock did: the version it left, or `None` when it did not take place. `read` reads the
/// document as it is now, from the latest committed state, and is asked only after a lost answer: the write took place if
/// the document carries its `mark`.
///
/// A write that was sent and not seen may still arrive behind the read. Then nobody knows that he holds the lock, and it
/// ends by its expiry.
///
/// # Errors
/// When the write failed for good, or the document cannot be read after a lost answer.
pub async fn settle<D: Lockable>(
    written: Result<ETag, Error>,
    mark: &str,
    read: impl Future<Output = Result<Option<Stored<D>>, Error>>,
) -> Result<Option<ETag>, Error> {
    match written {
        Ok(etag) => Ok(Some(etag)),
        Err(error) if error.is_ambiguous() => {
            let found = read.await?;
            Ok(found
                .filter(|stored| stored.document.lock_mark() == Some(mark))
                .map(|stored| stored.etag))
        }
        Err(error) if is_lost_race(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a conditional write came too late.
pub(super) fn is_lost_race(error: &Error) -> bool {
    error.is_conflict() || error.is_precondition_failed() || error.is_not_found()
}
