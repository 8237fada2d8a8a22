//! The core of every lock: an expiry in the service's time, a mark that is new with every write of
//! the lock, and one conditional write. After a lost answer the mark tells whether the write took
//! place.
//!
//! The caller's document type stores the two values: [`Lockable`] reads them, and the caller's
//! patch writes them. So documents with other lock fields (`lockToken`, `lockedUntil`) are locked
//! by the same code as documents with a [`Lease`](cdb_model::operation::Lease).

use cdb_client::retry::with_own_deadline;
use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::operation::Leasable;
use cdb_model::{Container, Document, ETag, Patch, Stored, Timestamp};

/// A document that one process at a time may own.
///
/// ```
/// use cdb_coordination::lease::Lockable;
/// use cdb_model::{Document, Timestamp};
/// use serde::{Deserialize, Serialize};
///
/// /// A document with lock fields of its own. A document with a `Lease` is `Lockable` already.
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "task", id = "{list}:task")]
/// struct Task {
///     #[document(partition_key)]
///     list: String,
///     lock_token: Option<String>,
///     locked_until: Option<Timestamp>,
/// }
///
/// impl Lockable for Task {
///     fn lock_mark(&self) -> Option<&str> {
///         self.lock_token.as_deref()
///     }
///
///     fn locked_until(&self) -> Option<Timestamp> {
///         self.locked_until
///     }
/// }
///
/// let until = Timestamp::from_millis(1_000);
/// let task = Task { list: "today".into(), lock_token: None, locked_until: Some(until) };
/// assert!(!task.is_lockable(Timestamp::from_millis(999)) && task.is_lockable(until));
/// ```
pub trait Lockable: Document {
    /// The mark of the last write that took, kept or released the lock: a random text.
    fn lock_mark(&self) -> Option<&str>;

    /// When the lock ends or has ended; `None` without a lock.
    fn locked_until(&self) -> Option<Timestamp>;

    /// Returns `true` if any process may lock the document at this time.
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

/// A mark that no other write has.
pub(super) fn fresh_mark() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Locks exactly the version `seen`. `patch` must write `mark` where [`Lockable::lock_mark`] reads
/// it, and `mark` must be unique, such as a UUID. Returns the new version, or `None` when another
/// writer was faster or the document is gone.
///
/// # Errors
/// When the service cannot be reached or refuses the write for another reason.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::lease::lock;
/// use cdb_model::operation::Leasable;
/// use cdb_model::{Document as _, Patch};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// # shop.run(order(7).create()).await?;
/// let seen = shop.read(&OrderKey::new("ann", 7)).await?.expect("it was placed");
/// let mark = "6f1e62a0"; // use a UUID
/// let lease = seen.document.lease.taken("packer-1", mark, shop.now() + Duration::from_secs(30));
/// let patch = Order::LEASE_PATHS.set(Patch::new(), &lease);
/// assert!(lock(&shop, &seen, &patch, mark).await?.is_some());
/// assert!(lock(&shop, &seen, &patch, mark).await?.is_none()); // the version has changed
/// # Ok(()) }).unwrap();
/// ```
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
    let written = container.run(patch.at(seen)).await;
    let now = container.latest_committed();
    confirm_lock(written.map(|written| written.etag), mark, now.read(seen)).await
}

/// Returns the version that a conditional write of a lock left, or `None` when the write did not
/// take place. `read` reads the document from the latest committed state. It runs only after a lost
/// answer: the write took place if the document has `mark`.
///
/// The service may carry out a lost request after that read. Then the document is locked without an
/// owner until the lock expires.
///
/// # Errors
/// When the write failed, or the document cannot be read after a lost answer.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::lease::confirm_lock;
/// use cdb_model::Document as _;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// // A document that is created with a lock.
/// let mark = "6f1e62a0"; // use a UUID
/// let mut order: Order = order(7);
/// order.lease = order.lease.taken("packer-1", mark, shop.now() + Duration::from_secs(30));
/// let created = shop.run(order.create()).await.map(|created| created.etag);
/// let key = OrderKey::new("ann", 7);
/// let ours = confirm_lock(created, mark, shop.latest_committed().read(&key)).await?;
/// assert!(ours.is_some());
/// # Ok(()) }).unwrap();
/// ```
pub async fn confirm_lock<D: Lockable>(
    written: Result<ETag, Error>,
    mark: &str,
    read: impl Future<Output = Result<Option<Stored<D>>, Error>>,
) -> Result<Option<ETag>, Error> {
    match written {
        Ok(etag) => Ok(Some(etag)),
        Err(error) if error.is_ambiguous() => {
            // The lost answer is the more important error: the document may be locked.
            let Ok(found) = with_own_deadline(read).await else {
                return Err(error);
            };
            Ok(found
                .filter(|stored| stored.document.lock_mark() == Some(mark))
                .map(|stored| stored.etag))
        }
        Err(error) if is_lost_race(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The result of [`renew_lock`], a write under a lock.
#[derive(Debug)]
pub enum Renewed<D> {
    /// The write took place and left this version.
    Written(ETag),
    /// The document still has the mark of the lock. It was read after a lost answer or a changed version,
    /// and shows whether the write took place.
    StillLocked(Box<Stored<D>>),
    /// Another process has locked the document, or the document is gone.
    Lost,
}

/// Renews a lock, or writes anything else under it: `patch` goes to the version that its holder knows,
/// and leaves the mark as it is. After a lost answer or a changed version, the document is read. The
/// lock is not lost while the document has the mark.
///
/// # Errors
/// When the write failed, or the document cannot be read.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::lease::{Renewed, renew_lock};
/// use cdb_model::operation::Leasable;
/// use cdb_model::{Document as _, Patch};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// # let mut locked: Order = order(7);
/// # locked.lease = locked.lease.taken("packer-1", "6f1e62a0", shop.now() + Duration::from_secs(1));
/// # shop.run(locked.create()).await?;
/// # let held = shop.read(&OrderKey::new("ann", 7)).await?.expect("it was created");
/// // `held` is the locked document.
/// let longer = held.document.lease.kept("6f1e62a0", shop.now() + Duration::from_secs(30));
/// let renewal = Order::LEASE_PATHS.set(Patch::new(), &longer);
/// assert!(matches!(renew_lock(&shop, &held, &renewal).await?, Renewed::Written(_)));
/// # Ok(()) }).unwrap();
/// ```
pub async fn renew_lock<C, D>(
    container: &ContainerClient<C>,
    held: &Stored<D>,
    patch: &Patch<D>,
) -> Result<Renewed<D>, Error>
where
    C: Container,
    D: MemberOf<C> + Lockable,
{
    match container.run(patch.at(held)).await {
        Ok(written) => Ok(Renewed::Written(written.etag)),
        Err(error) if error.is_ambiguous() || error.is_precondition_failed() => {
            let latest = container.latest_committed();
            let found = match with_own_deadline(latest.read(held)).await {
                Err(_) if error.is_ambiguous() => return Err(error),
                found => found?,
            };
            let mark = held.document.lock_mark();
            Ok(found
                .filter(|stored| mark.is_some() && stored.document.lock_mark() == mark)
                .map_or(Renewed::Lost, |stored| {
                    Renewed::StillLocked(Box::new(stored))
                }))
        }
        Err(error) if error.is_not_found() => Ok(Renewed::Lost),
        Err(error) => Err(error),
    }
}

/// Returns `true` if a conditional write was refused because another writer was faster.
pub fn is_lost_race(error: &Error) -> bool {
    error.is_conflict() || error.is_precondition_failed() || error.is_not_found()
}

#[cfg(test)]
mod tests {
    use cdb_client::{Bootstrap, CosmosClient, MasterKey};
    use cdb_emulator::{Effect, Emulator, Fault};
    use serde::{Deserialize, Serialize};

    use super::*;

    /// A document with lock fields of its own.
    #[derive(Document, Serialize, Deserialize, Clone, Debug)]
    #[document(type = "task", id = "{list}:task")]
    struct Task {
        #[document(partition_key)]
        list: String,
        lock_token: Option<String>,
        locked_until: Option<Timestamp>,
    }

    impl Lockable for Task {
        fn lock_mark(&self) -> Option<&str> {
            self.lock_token.as_deref()
        }

        fn locked_until(&self) -> Option<Timestamp> {
            self.locked_until
        }
    }

    #[derive(cdb_model::Container)]
    enum Lists {
        Task(Task),
    }

    const LATER: Timestamp = Timestamp::from_millis(2_000);

    /// A task that `holder` has locked.
    async fn held() -> (Emulator, ContainerClient<Lists>, Stored<Task>) {
        let emulator = Emulator::start().await.expect("the emulator starts");
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).expect("a key"))
            .build()
            .expect("a client");
        let container = client
            .database("db")
            .bootstrap::<Lists>("lists", Bootstrap::CreateIfMissing)
            .await
            .expect("the container opens");
        let task = Task {
            list: "today".to_owned(),
            lock_token: Some("holder".to_owned()),
            locked_until: Some(Timestamp::from_millis(1_000)),
        };
        container.run(task.create()).await.expect("it is created");
        let held = container.read(&task.key()).await.expect("it is read");
        (emulator, container, held.expect("it is there"))
    }

    fn renewal() -> Patch<Task> {
        Patch::new().set(Task::LOCKED_UNTIL, Some(LATER))
    }

    #[tokio::test]
    async fn a_renewal_without_an_answer_reads_whether_it_took_place() {
        let (emulator, container, held) = held().await;
        for (effect, until) in [
            (Effect::DropRequest, held.document.locked_until),
            (Effect::DropAnswer, Some(LATER)),
        ] {
            emulator.inject(Fault::once(effect));
            let kept = renew_lock(&container, &held, &renewal()).await;
            let Ok(Renewed::StillLocked(found)) = kept else {
                panic!("{kept:?}");
            };
            assert_eq!(found.document.locked_until, until);
        }
        // The document has another version than the one that the holder knows, but the lock is
        // still held.
        let kept = renew_lock(&container, &held, &renewal()).await;
        assert!(matches!(kept, Ok(Renewed::StillLocked(_))), "{kept:?}");
    }

    #[tokio::test]
    async fn a_lock_is_lost_when_another_process_takes_or_deletes_the_document() {
        let (_emulator, container, held) = held().await;
        let kept = renew_lock(&container, &held, &renewal()).await;
        let Ok(Renewed::Written(etag)) = kept else {
            panic!("{kept:?}");
        };
        let held = Stored { etag, ..held };
        let taken = Patch::new().set(Task::LOCK_TOKEN, Some("other".to_owned()));
        let other = lock(&container, &held, &taken, "other").await;
        assert!(other.expect("it is locked").is_some());
        let kept = renew_lock(&container, &held, &renewal()).await;
        assert!(matches!(kept, Ok(Renewed::Lost)), "{kept:?}");
        container
            .run(held.document.key().delete())
            .await
            .expect("it is deleted");
        let kept = renew_lock(&container, &held, &renewal()).await;
        assert!(matches!(kept, Ok(Renewed::Lost)), "{kept:?}");
    }
}
