//! Read, change, replace: updates of one document that other writers may change too.

use cdb_model::container::MemberOf;
use cdb_model::document::{DocumentAddress, KnownPartition, WriteMark};
use cdb_model::operation::{Identity, Target};
use cdb_model::{Container, Stored};
use tokio::time::Instant;
use uuid::Uuid;

use crate::container::handle::ContainerClient;
use crate::error::{Error, ErrorKind, Result};
use crate::retry::Backoff;

/// What became of a replacement.
enum Replaced {
    Done,
    /// Another writer was faster.
    Lost(Error),
}

impl<C: Container> ContainerClient<C> {
    /// Reads a document, changes it, and replaces the version that was read. Starts over while other
    /// writers are faster, so `change` may run several times. Returns the value of its last run.
    ///
    /// A success means that the change was written once: each replacement stores a
    /// [mark](WriteMark), which tells it from equal content of another writer after a lost answer.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_client::ContainerClient;
    /// use shop::{OrderKey, Shop};
    ///
    /// async fn pay(shop: &ContainerClient<Shop>) -> cdb_client::Result<()> {
    ///     let key = OrderKey::new("ann", 1);
    ///     shop.update(&key, |order| order.status = "paid".to_owned()).await
    /// }
    /// ```
    ///
    /// # Errors
    /// - [`is_not_found`](Error::is_not_found) when the document does not exist.
    /// - [`is_precondition_failed`](Error::is_precondition_failed) when other writers were faster
    ///   until the deadline of [`RetryConfig`](crate::retry::RetryConfig).
    /// - [`is_ambiguous`](Error::is_ambiguous) when an answer was lost, and another writer has
    ///   changed the document since, or it cannot be read: `change` may have been written once.
    pub async fn update<T, R>(
        &self,
        target: T,
        mut change: impl FnMut(&mut T::Document) -> R,
    ) -> Result<R>
    where
        T: Target,
        T::Document: MemberOf<C>,
        T::Partition: KnownPartition,
    {
        let changed = self.try_update(target, |document| Ok::<_, Error>(change(document)));
        changed.await
    }

    /// As [`update`](Self::update), with a change that can refuse: then nothing is written, and its
    /// error is returned.
    ///
    /// # Errors
    /// The error of `change`; otherwise as [`update`](Self::update).
    pub async fn try_update<T, R, E>(
        &self,
        target: T,
        mut change: impl FnMut(&mut T::Document) -> Result<R, E>,
    ) -> Result<R, E>
    where
        T: Target,
        T::Document: MemberOf<C>,
        T::Partition: KnownPartition,
        E: From<Error>,
    {
        let pipeline = &self.context.pipeline;
        let until = Instant::now() + pipeline.retry_config().deadline;
        let mut backoff = pipeline.backoff();
        let address = target.address().unconditional();
        let mut reader = self.clone();
        loop {
            let mut stored = reader.read_existing(&address).await?;
            let read = stored.identity();
            let result = change(&mut stored.document)?;
            let replaced = self.replace_read(&stored, &read, &mut backoff, until);
            let Replaced::Lost(error) = replaced.await? else {
                return Ok(result);
            };
            let delay = backoff.delay(None);
            if Instant::now() + delay >= until {
                return Err(error.into());
            }
            tokio::time::sleep(delay).await;
            // A read with this session's consistency may miss the other writer's change.
            reader = self.latest_committed();
        }
    }

    async fn read_existing<D, P>(&self, address: &DocumentAddress<D, P>) -> Result<Stored<D>>
    where
        D: MemberOf<C>,
        P: KnownPartition,
    {
        let found = self.read(address).await?;
        found.ok_or_else(|| {
            let name = D::SHAPE.name;
            let id = address.id().map(ToString::to_string).unwrap_or_default();
            Error::new(
                ErrorKind::NotFound,
                format!("`{name}` `{id}` does not exist"),
            )
        })
    }

    /// Replaces the version that was read. After a lost answer, the mark of the stored document tells
    /// whether this took place; its content does not, because another writer may have written the same.
    async fn replace_read<D: MemberOf<C>>(
        &self,
        stored: &Stored<D>,
        read: &Identity,
        backoff: &mut Backoff,
        until: Instant,
    ) -> Result<Replaced> {
        let (mark, latest) = (fresh_mark(), self.latest_committed());
        let replacement = stored.replace_read(read).marked(&mark);
        let mut lost: Option<Error> = None;
        loop {
            let error = match self.run(replacement.clone()).await {
                Ok(_) => return Ok(Replaced::Done),
                Err(error) if error.is_ambiguous() => error,
                Err(error) if !error.is_precondition_failed() => return Err(error),
                Err(error) => match lost {
                    None => return Ok(Replaced::Lost(error)),
                    Some(lost) => lost,
                },
            };
            match latest.read_with_mark(stored).await {
                Ok(Some((_, found))) if found.as_ref() == Some(&mark) => return Ok(Replaced::Done),
                // Sent again with the same ETag, it takes place at most once.
                Ok(Some((found, _))) if found.etag == stored.etag && Instant::now() < until => {
                    lost = Some(error);
                    tokio::time::sleep(backoff.delay(None)).await;
                }
                Ok(Some((found, _))) if found.etag != stored.etag => {
                    return Err(error.with_context(
                        "an answer was lost, and another writer has changed the document since",
                    ));
                }
                _ => return Err(error),
            }
        }
    }
}

/// Returns a mark that no other write has.
fn fresh_mark() -> WriteMark {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    // Each half has a few fixed bits.
    WriteMark::new(high ^ low)
}
