//! Operations on one document: create, upsert, replace, delete, read.
//!
//! Each write sets whether it may be repeated after an unknown outcome (see `retry/verdict.rs`).

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

/// The result of a write.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The id of the item.
    pub id: ItemId,
    /// The new version of the item.
    pub etag: ETag,
    /// Request units charged.
    pub charge: f64,
}

impl<C: Container> ContainerClient<C> {
    /// Creates a document.
    ///
    /// # Errors
    /// [`is_conflict`](Error::is_conflict) when an item has the same id or unique key;
    /// [`is_ambiguous`](Error::is_ambiguous) when the document may have been created: read it and
    /// compare.
    pub async fn create<D: MemberOf<C>>(&self, document: &D) -> Result<Written> {
        let (id, request) = self.write_request::<D>(OperationKind::Create, document)?;
        self.write(id, &request).await
    }

    /// Creates a document whose id only its writer can have chosen, such as an id with a random
    /// part. An existing item with this id is the same document, so this request is retried after a
    /// lost answer, unlike [`create`](Self::create). Returns `None` when the document existed,
    /// perhaps from an earlier attempt.
    ///
    /// # Errors
    /// When the service refuses the document or cannot be reached;
    /// [`is_ambiguous`](Error::is_ambiguous) when the document may have been created.
    pub async fn ensure<D: MemberOf<C>>(&self, document: &D) -> Result<Option<Written>> {
        let (id, request) = self.write_request::<D>(OperationKind::Create, document)?;
        match self.write(id, &request.repeat(Repeat::Always)).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates or replaces a document.
    ///
    /// # Errors
    /// When the service refuses the document or cannot be reached.
    pub async fn upsert<D: MemberOf<C>>(&self, document: &D) -> Result<Written> {
        let (id, request) = self.write_request::<D>(OperationKind::Upsert, document)?;
        let request = request
            .header(header::IS_UPSERT, "True")
            .repeat(Repeat::Always);
        self.write(id, &request).await
    }

    /// Creates or replaces a document that is given as JSON, whatever its type. For tools that copy
    /// documents.
    ///
    /// # Errors
    /// When the service refuses the document, for example because its partition key is another than
    /// `partition`.
    pub async fn upsert_json(&self, partition: &PartitionKey, json: &str) -> Result<()> {
        Self::check_levels(partition)?;
        let body = Bytes::copy_from_slice(json.as_bytes());
        let request = self
            .context
            .items_request(OperationKind::Upsert, JSON, body)
            .header(header::PREFER, "return=minimal")
            .header(header::IS_UPSERT, "True")
            .repeat(Repeat::Always)
            .in_partition(partition)?;
        self.context.send(&request).await.map(drop)
    }

    /// Replaces the version `etag` of a document, or creates the document if it no longer exists,
    /// unlike [`replace_if_match`](Self::replace_if_match).
    ///
    /// # Errors
    /// [`is_precondition_failed`](Error::is_precondition_failed) when the document has another
    /// version.
    pub async fn upsert_if_match<D: MemberOf<C>>(
        &self,
        document: &D,
        etag: &ETag,
    ) -> Result<Written> {
        let (id, request) = self.write_request::<D>(OperationKind::Upsert, document)?;
        let request = request.header(header::IS_UPSERT, "True").if_match(etag)?;
        self.write(id, &request).await
    }

    /// Replaces an existing document, whatever its version.
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
    /// [`is_precondition_failed`](Error::is_precondition_failed) when it has another version,
    /// [`is_not_found`](Error::is_not_found) when it does not exist.
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
    /// [`is_not_found`](Error::is_not_found) when it does not exist.
    pub async fn delete<K>(&self, key: &K) -> Result<()>
    where
        K: LocatedKey,
        K::Document: MemberOf<C>,
    {
        self.delete_in(key.partition_key(), key).await
    }

    /// As [`delete`](Self::delete), for keys without a partition key.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub async fn delete_in<K>(&self, partition: impl Into<PartitionKey>, key: &K) -> Result<()>
    where
        K: DocumentKey,
        K::Document: MemberOf<C>,
    {
        let id = key.to_id().map_err(Error::encode)?;
        let partition = partition.into();
        let request = self.item_request(OperationKind::Delete, Method::DELETE, &partition, &id)?;
        match self.context.send(&request.repeat(Repeat::Always)).await {
            // An attempt with an unknown outcome deleted it.
            Err(error) if error.is_missing_after_doubt() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes the version `etag` of the document with this key.
    ///
    /// # Errors
    /// [`is_precondition_failed`](Error::is_precondition_failed) when it has another version,
    /// [`is_not_found`](Error::is_not_found) when it does not exist: another writer has deleted it,
    /// or also [`is_ambiguous`](Error::is_ambiguous), perhaps an earlier attempt of this call.
    pub async fn delete_if_match<K>(&self, key: &K, etag: &ETag) -> Result<()>
    where
        K: LocatedKey,
        K::Document: MemberOf<C>,
    {
        let id = key.to_id().map_err(Error::encode)?;
        self.delete_version(&key.partition_key(), &id, etag).await
    }

    /// Deletes exactly this stored version.
    ///
    /// # Errors
    /// As [`delete_if_match`](Self::delete_if_match).
    pub async fn delete_stored<D: MemberOf<C>>(&self, stored: &Stored<D>) -> Result<()> {
        let partition = stored.document.partition_key();
        self.delete_version(&partition, &stored.id, &stored.etag)
            .await
    }

    async fn delete_version(
        &self,
        partition: &PartitionKey,
        id: &ItemId,
        etag: &ETag,
    ) -> Result<()> {
        let request = self.item_request(OperationKind::Delete, Method::DELETE, partition, id)?;
        let accepted = self.context.send(&request.if_match(etag)?).await;
        accepted.map(drop)
    }

    /// Reads the document with this key; `None` when it does not exist.
    ///
    /// # Errors
    /// When the read fails, or the container does not exist.
    pub async fn read<K>(&self, key: &K) -> Result<Option<Stored<K::Document>>>
    where
        K: LocatedKey,
        K::Document: MemberOf<C>,
    {
        self.read_in(key.partition_key(), key).await
    }

    /// As [`read`](Self::read), for keys without a partition key.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_in<K>(
        &self,
        partition: impl Into<PartitionKey>,
        key: &K,
    ) -> Result<Option<Stored<K::Document>>>
    where
        K: DocumentKey,
        K::Document: MemberOf<C>,
    {
        let id = key.to_id().map_err(Error::encode)?;
        self.read_item(&partition.into(), &id).await
    }

    /// Reads a stored document again, by its stored id; `None` when it no longer exists.
    ///
    /// # Errors
    /// As [`read`](Self::read).
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
        let Some(accepted) = self.read_accepted(partition, id).await? else {
            return Ok(None);
        };
        decode::<C, D>(accepted.text()?)
            .map(Some)
            .map_err(|error| accepted.unusable(Error::decode(error)))
    }

    /// Reads an item; `None` when it does not exist.
    pub(super) async fn read_accepted(
        &self,
        partition: &PartitionKey,
        id: &ItemId,
    ) -> Result<Option<Accepted>> {
        let request = self.item_request(OperationKind::Read, Method::GET, partition, id)?;
        let request = self.consistent(request.session(self.context.session_of(partition)));
        match self.context.send(&request).await {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if error.status() == Some(Status::ITEM_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_request<D: MemberOf<C>>(
        &self,
        kind: OperationKind,
        document: &D,
    ) -> Result<(ItemId, Request)> {
        let encoded = encode::<C, D>(document, self.now()).map_err(Error::encode)?;
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

    /// Creates a request for one item, without a body.
    pub(super) fn item_request(
        &self,
        kind: OperationKind,
        method: Method,
        partition: &PartitionKey,
        id: &ItemId,
    ) -> Result<Request> {
        Self::check_levels(partition)?;
        let resource = self.context.resource.item(id.as_str())?;
        Request::new(kind, method, resource).in_partition(partition)
    }

    /// Adds this handle's consistency to a read.
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
}

fn written(id: ItemId, accepted: &Accepted) -> Result<Written> {
    Ok(Written {
        id,
        etag: accepted.etag()?,
        charge: accepted.call.charge,
    })
}
