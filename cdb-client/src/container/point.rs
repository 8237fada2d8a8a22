//! One document at a time: create, upsert, replace, delete, read.
//!
//! Which write is repeated after an open outcome is decided here, by what it promises (see `retry/verdict.rs`).

use bytes::Bytes;
use cdb_model::{
    Container, DocumentKey, ETag, ItemId, LocatedKey, MemberOf, PartitionKey, Stored, decode,
    encode,
};
use http::Method;

use crate::container::handle::ContainerClient;
use crate::error::{Error, Result};
use crate::header;
use crate::operation::OperationKind;
use crate::request::Request;
use crate::retry::{Accepted, Repeat};
use crate::status::Status;

pub(super) const JSON: &str = "application/json";

/// A write that took effect.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, order};
/// # shop::with_shop(async |shop| {
/// let written = shop.create(&order(1)).await?;
/// println!("{} took {} RU", written.id, written.charge);
/// shop.delete_if_match(&OrderKey::new("ann", 1_u64), &written.etag).await?;
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The id of the item.
    pub id: ItemId,
    /// Its new version.
    pub etag: ETag,
    /// Request units charged.
    pub charge: f64,
}

impl<C: Container> ContainerClient<C> {
    /// Stores a document that must not exist yet.
    ///
    /// # Errors
    /// [`is_conflict`](Error::is_conflict) when the id or a unique key is taken; [`is_ambiguous`](Error::is_ambiguous)
    /// when it may have been stored: read it and compare.
    pub async fn create<D: MemberOf<C>>(&self, document: &D) -> Result<Written> {
        let (id, request) = self.write_request::<D>(OperationKind::Create, document)?;
        self.write(id, &request).await
    }

    /// Makes sure that a document is stored whose id nobody but its writer can have chosen, such as one with a random
    /// part: one that is there is this one. So it is sent again after a lost answer, which [`create`](Self::create)
    /// cannot be. `None` when it was there already, perhaps by an earlier attempt.
    ///
    /// # Errors
    /// When the service refuses it or cannot be reached; [`is_ambiguous`](Error::is_ambiguous) when it may have been
    /// stored all the same.
    pub async fn ensure<D: MemberOf<C>>(&self, document: &D) -> Result<Option<Written>> {
        let (id, request) = self.write_request::<D>(OperationKind::Create, document)?;
        match self.write(id, &request.repeat(Repeat::Always)).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores a document, whatever was there before.
    ///
    /// # Errors
    /// When the service refuses it or cannot be reached.
    pub async fn upsert<D: MemberOf<C>>(&self, document: &D) -> Result<Written> {
        let (id, request) = self.write_request::<D>(OperationKind::Upsert, document)?;
        let request = request
            .header(header::IS_UPSERT, "True")
            .repeat(Repeat::Always);
        self.write(id, &request).await
    }

    /// Stores a document in place of the version `etag`. Where there is no document any more, the service creates it;
    /// [`replace_if_match`](Self::replace_if_match) does not.
    ///
    /// # Errors
    /// [`is_precondition_failed`](Error::is_precondition_failed) when it has another version by now.
    pub async fn upsert_if_match<D: MemberOf<C>>(
        &self,
        document: &D,
        etag: &ETag,
    ) -> Result<Written> {
        let (id, request) = self.write_request::<D>(OperationKind::Upsert, document)?;
        let request = request.header(header::IS_UPSERT, "True").if_match(etag)?;
        self.write(id, &request).await
    }

    /// Replaces a document that must exist, whatever its version.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found) when it does not exist.
    pub async fn replace<D: MemberOf<C>>(&self, document: &D) -> Result<Written> {
        let (id, request) = self.replace_request(document)?;
        self.write(id, &request.repeat(Repeat::Always)).await
    }

    /// Replaces the version `etag` of a document.
    ///
    /// # Errors
    /// [`is_precondition_failed`](Error::is_precondition_failed) when it has another version by now,
    /// [`is_not_found`](Error::is_not_found) when it is gone.
    pub async fn replace_if_match<D: MemberOf<C>>(
        &self,
        document: &D,
        etag: &ETag,
    ) -> Result<Written> {
        let (id, request) = self.replace_request(document)?;
        self.write(id, &request.if_match(etag)?).await
    }

    /// Deletes the document with this key, whatever its version.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found) when there is none.
    pub async fn delete<K>(&self, key: &K) -> Result<()>
    where
        K: LocatedKey,
        K::Document: MemberOf<C>,
    {
        self.delete_in(&key.partition_key(), key).await
    }

    /// [`delete`](Self::delete) for keys that do not hold their partition.
    ///
    /// # Errors
    /// The same.
    pub async fn delete_in<K>(&self, partition: &PartitionKey, key: &K) -> Result<()>
    where
        K: DocumentKey,
        K::Document: MemberOf<C>,
    {
        let id = key.to_id().map_err(Error::encode)?;
        let request = self.item_request(OperationKind::Delete, Method::DELETE, partition, &id)?;
        self.delete_item(request.repeat(Repeat::Always)).await
    }

    /// Deletes the version `etag` of the document with this key.
    ///
    /// # Errors
    /// [`is_precondition_failed`](Error::is_precondition_failed) when it has another version by now,
    /// [`is_not_found`](Error::is_not_found) when it is gone.
    pub async fn delete_if_match<K>(&self, key: &K, etag: &ETag) -> Result<()>
    where
        K: LocatedKey,
        K::Document: MemberOf<C>,
    {
        self.delete_in_if_match(&key.partition_key(), key, etag)
            .await
    }

    /// [`delete_if_match`](Self::delete_if_match) for keys that do not hold their partition.
    ///
    /// # Errors
    /// The same.
    pub async fn delete_in_if_match<K>(
        &self,
        partition: &PartitionKey,
        key: &K,
        etag: &ETag,
    ) -> Result<()>
    where
        K: DocumentKey,
        K::Document: MemberOf<C>,
    {
        let id = key.to_id().map_err(Error::encode)?;
        let request = self.item_request(OperationKind::Delete, Method::DELETE, partition, &id)?;
        self.delete_item(request.if_match(etag)?).await
    }

    /// Deletes exactly this stored version, by the id it is stored under.
    ///
    /// # Errors
    /// The same as [`delete_if_match`](Self::delete_if_match).
    pub async fn delete_stored<D: MemberOf<C>>(&self, stored: &Stored<D>) -> Result<()> {
        let partition = stored.document.partition_key();
        let request = self.item_request(
            OperationKind::Delete,
            Method::DELETE,
            &partition,
            &stored.id,
        )?;
        self.delete_item(request.if_match(&stored.etag)?).await
    }

    /// The document with this key, or `None`.
    ///
    /// # Errors
    /// When it cannot be read; a missing container is an error, not a missing document.
    pub async fn read<K>(&self, key: &K) -> Result<Option<Stored<K::Document>>>
    where
        K: LocatedKey,
        K::Document: MemberOf<C>,
    {
        self.read_in(&key.partition_key(), key).await
    }

    /// [`read`](Self::read) for keys that do not hold their partition.
    ///
    /// # Errors
    /// The same.
    pub async fn read_in<K>(
        &self,
        partition: &PartitionKey,
        key: &K,
    ) -> Result<Option<Stored<K::Document>>>
    where
        K: DocumentKey,
        K::Document: MemberOf<C>,
    {
        let id = key.to_id().map_err(Error::encode)?;
        self.read_item(partition, &id).await
    }

    /// What is stored now in the place of a document that was read, under whatever id; `None` when it is gone.
    ///
    /// # Errors
    /// The same as [`read`](Self::read).
    pub async fn read_stored<D: MemberOf<C>>(
        &self,
        stored: &Stored<D>,
    ) -> Result<Option<Stored<D>>> {
        self.read_item(&stored.document.partition_key(), &stored.id)
            .await
    }

    async fn read_item<D: MemberOf<C>>(
        &self,
        partition: &PartitionKey,
        id: &ItemId,
    ) -> Result<Option<Stored<D>>> {
        let request = self.item_request(OperationKind::Read, Method::GET, partition, id)?;
        let request = self.consistent(request.session(self.context.session_of(partition)));
        match self.context.send(&request).await {
            Ok(accepted) => decode::<C, D>(accepted.text()?)
                .map(Some)
                .map_err(|error| accepted.unusable(Error::decode(error))),
            Err(error) if error.status() == Some(Status::ITEM_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_request<D: MemberOf<C>>(
        &self,
        kind: OperationKind,
        document: &D,
    ) -> Result<(ItemId, Request)> {
        let encoded = encode::<C, D>(document).map_err(Error::encode)?;
        let body = Bytes::from(String::from(Box::<str>::from(encoded.json)));
        let request = self
            .context
            .items_request(kind, JSON, body)
            .header(header::PREFER, "return=minimal")
            .in_partition(&document.partition_key())?;
        Ok((encoded.id, request))
    }

    fn replace_request<D: MemberOf<C>>(&self, document: &D) -> Result<(ItemId, Request)> {
        let (id, mut request) = self.write_request::<D>(OperationKind::Replace, document)?;
        request.method = Method::PUT;
        request.resource = self.context.resource.item(id.as_str())?;
        Ok((id, request))
    }

    /// A request about one item, without a body.
    pub(super) fn item_request(
        &self,
        kind: OperationKind,
        method: Method,
        partition: &PartitionKey,
        id: &ItemId,
    ) -> Result<Request> {
        let resource = self.context.resource.item(id.as_str())?;
        Request::new(kind, method, resource).in_partition(partition)
    }

    /// A read of this handle's consistency.
    pub(super) fn consistent(&self, request: Request) -> Request {
        if self.latest_committed {
            request.header(header::READ_CONSISTENCY, "LatestCommitted")
        } else {
            request
        }
    }

    pub(super) async fn write(&self, id: ItemId, request: &Request) -> Result<Written> {
        written(id, &self.context.send(request).await?)
    }

    /// A missing item after an attempt with an open outcome is what that attempt did.
    async fn delete_item(&self, request: Request) -> Result<()> {
        match self.context.send(&request).await {
            Err(error)
                if error.status() == Some(Status::ITEM_NOT_FOUND) && error.is_ambiguous() =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

fn written(id: ItemId, accepted: &Accepted) -> Result<Written> {
    Ok(Written {
        id,
        etag: accepted.etag()?,
        charge: accepted.call.charge,
    })
}
