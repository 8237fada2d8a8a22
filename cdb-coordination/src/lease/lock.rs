//! The core of every lock: an expiry in the service's time, a mark that is new with every write of the lock, one conditional
//! write, and an answer to "did it happen?" after a lost one.
//!
//! It does not know how a document stores the two values: [`Lockable`] says what they are, and the patch that writes them is
//! the caller's. So documents whose lock has a form of its own (`lockToken`, `lockedUntil`) are locked by the same steps as
//! those with a [`Lease`](cdb_model::Lease).

use cdb_client::{ContainerClient, Error};
use cdb_model::{Container, Document, ETag, Leasable, MemberOf, Patch, Stored, Timestamp};

/// A document that one process at a time works on.
///
/// ```
/// use cdb_coordination::Lockable;
/// use cdb_model::{Document, Timestamp};
/// use serde::{Deserialize, Serialize};
///
/// /// A document whose lock has a form of its own; one with a `Lease` is lockable by itself.
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
pub(super) fn fresh_mark() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Locks exactly the version that was seen: writes `patch`, which puts `mark` where [`Lockable::lock_mark`] finds it. No
/// other write may ever have had the same mark: draw it, as a UUID.
/// The new version, or `None` when somebody was faster or the document is gone.
///
/// # Errors
/// When the service cannot be reached or refuses the write itself.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::lock;
/// use cdb_model::{Leasable, Patch};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// # shop.create(&order(7)).await?;
/// let seen = shop.read(&OrderKey::new("ann", 7_u64)).await?.expect("it was placed");
/// let mark = "6f1e62a0"; // a UUID, in earnest
/// let lease = seen.document.lease.taken("packer-1", mark, shop.now() + Duration::from_secs(30));
/// let patch = Order::LEASE_PATHS.set(Patch::new(), &lease);
/// assert!(lock(&shop, &seen, &patch, mark).await?.is_some());
/// assert!(lock(&shop, &seen, &patch, mark).await?.is_none()); // that version is no more
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
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::settle;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// // A document that is locked from its creation on.
/// let mark = "6f1e62a0"; // a UUID, in earnest
/// let mut order: Order = order(7);
/// order.lease = order.lease.taken("packer-1", mark, shop.now() + Duration::from_secs(30));
/// let created = shop.create(&order).await.map(|created| created.etag);
/// let key = OrderKey::new("ann", 7_u64);
/// let ours = settle(created, mark, shop.latest_committed().read(&key)).await?;
/// assert!(ours.is_some());
/// # Ok(()) }).unwrap();
/// ```
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

/// What became of a write under a lock that its holder believes to have.
///
/// ```
/// use cdb_coordination::{Kept, keep};
/// use cdb_model::Patch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// # let mut locked: Order = order(7);
/// # let until = shop.now() + std::time::Duration::from_secs(1);
/// # locked.lease = locked.lease.taken("packer-1", "6f1e62a0", until);
/// # shop.create(&locked).await?;
/// # let key = OrderKey::new("ann", 7_u64);
/// # let mut held = shop.read(&key).await?.expect("it was created");
/// # shop.patch(&key, &Patch::new().set(Order::STATE, "paid".to_owned())).await?;
/// // `held` is the document as we locked it; meanwhile it was paid.
/// let packed = Patch::new().set(Order::STATE, "packed".to_owned());
/// match keep(&shop, &held, &packed).await? {
///     Kept::Written(etag) => held.etag = etag,
///     Kept::Held(now) => held = *now, // still ours: look whether it is packed, and go on from there
///     Kept::Lost => return Err("somebody else has it; drop what was done".into()),
/// }
/// assert_eq!(held.document.state, "paid");
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub enum Kept<D> {
    /// It took place and left this version.
    Written(ETag),
    /// The lock is still the holder's, and whether the write took place the document says, which is as it is now.
    Held(Box<Stored<D>>),
    /// Somebody else has the document, or it is gone.
    Lost,
}

/// Writes `patch` to the version that the holder of a lock knows, without changing the mark: to renew the lock, for one. If
/// there is no answer, or the version has changed, the document is read: it is still the holder's while it has the mark.
///
/// # Errors
/// When the write failed for good, or the document cannot be read.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::{Kept, keep};
/// use cdb_model::{Leasable, Patch};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// # let mut locked: Order = order(7);
/// # locked.lease = locked.lease.taken("packer-1", "6f1e62a0", shop.now() + Duration::from_secs(1));
/// # shop.create(&locked).await?;
/// # let held = shop.read(&OrderKey::new("ann", 7_u64)).await?.expect("it was created");
/// // `held` is the document as we locked it.
/// let longer = held.document.lease.kept("6f1e62a0", shop.now() + Duration::from_secs(30));
/// let renewal = Order::LEASE_PATHS.set(Patch::new(), &longer);
/// assert!(matches!(keep(&shop, &held, &renewal).await?, Kept::Written(_)));
/// # Ok(()) }).unwrap();
/// ```
pub async fn keep<C, D>(
    container: &ContainerClient<C>,
    held: &Stored<D>,
    patch: &Patch<D>,
) -> Result<Kept<D>, Error>
where
    C: Container,
    D: MemberOf<C> + Lockable,
{
    match container.patch_stored(held, patch).await {
        Ok(written) => Ok(Kept::Written(written.etag)),
        Err(error) if error.is_ambiguous() || error.is_precondition_failed() => {
            let found = container.latest_committed().read_stored(held).await?;
            let mark = held.document.lock_mark();
            Ok(found
                .filter(|stored| mark.is_some() && stored.document.lock_mark() == mark)
                .map_or(Kept::Lost, |stored| Kept::Held(Box::new(stored))))
        }
        Err(error) if error.is_not_found() => Ok(Kept::Lost),
        Err(error) => Err(error),
    }
}

/// Whether a conditional write came too late.
pub(crate) fn is_lost_race(error: &Error) -> bool {
    error.is_conflict() || error.is_precondition_failed() || error.is_not_found()
}

#[cfg(test)]
mod tests {
    use cdb_client::{Bootstrap, CosmosClient, MasterKey};
    use cdb_emulator::{Effect, Emulator, Fault};
    use serde::{Deserialize, Serialize};

    use super::*;

    /// A document with a lock of its own form.
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
    #[container(partition_key = "/list")]
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
        container.create(&task).await.expect("it is created");
        let held = container.read(&task.key()).await.expect("it is read");
        (emulator, container, held.expect("it is there"))
    }

    fn renewal() -> Patch<Task> {
        Patch::new().set(Task::LOCKED_UNTIL, Some(LATER))
    }

    #[tokio::test]
    async fn a_renewal_without_an_answer_is_told_from_one_that_was_lost_on_the_way() {
        let (emulator, container, held) = held().await;
        for (effect, until) in [
            (Effect::DropRequest, held.document.locked_until),
            (Effect::DropAnswer, Some(LATER)),
        ] {
            emulator.inject(Fault::once(effect));
            let kept = keep(&container, &held, &renewal()).await;
            let Ok(Kept::Held(found)) = kept else {
                panic!("{kept:?}");
            };
            assert_eq!(found.document.locked_until, until);
        }
        // By then it has another version than the one that the holder knows, and is still his.
        let kept = keep(&container, &held, &renewal()).await;
        assert!(matches!(kept, Ok(Kept::Held(_))), "{kept:?}");
    }

    #[tokio::test]
    async fn what_somebody_else_has_taken_or_deleted_is_lost() {
        let (_emulator, container, held) = held().await;
        let kept = keep(&container, &held, &renewal()).await;
        let Ok(Kept::Written(etag)) = kept else {
            panic!("{kept:?}");
        };
        let held = Stored { etag, ..held };
        let taken = Patch::new().set(Task::LOCK_TOKEN, Some("other".to_owned()));
        let other = lock(&container, &held, &taken, "other").await;
        assert!(other.expect("it is locked").is_some());
        let kept = keep(&container, &held, &renewal()).await;
        assert!(matches!(kept, Ok(Kept::Lost)), "{kept:?}");
        container
            .delete(&held.document.key())
            .await
            .expect("it is deleted");
        let kept = keep(&container, &held, &renewal()).await;
        assert!(matches!(kept, Ok(Kept::Lost)), "{kept:?}");
    }
}
