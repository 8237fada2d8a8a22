//! Reads of one document, requests for one, and what a write returns.

use cdb_model::container::MemberOf;
use cdb_model::document::{DocumentAddress, KnownPartition, WriteMark};
use cdb_model::operation::Target;
use cdb_model::stored::decode;
use cdb_model::value::ItemId;
use cdb_model::{Container, ETag, PartitionKey, Stored};
use http::Method;

use crate::container::handle::ContainerClient;
use crate::error::{Error, RequestKind, ResponseStatus, Result};
use crate::protocol::{Accepted, Request, header};

/// The result of a write.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The id of the item.
    pub id: ItemId,
    /// The new version of the item.
    pub etag: ETag,
}

impl<C: Container> ContainerClient<C> {
    /// Reads the document with this key, or a stored document again; `None` when it does not exist.
    /// A key without a partition key is read as `key.in_partition(…)`.
    ///
    /// # Errors
    /// When the read fails, or the container does not exist.
    pub async fn read<T>(&self, target: T) -> Result<Option<Stored<T::Document>>>
    where
        T: Target,
        T::Document: MemberOf<C>,
        T::Partition: KnownPartition,
    {
        match self.find(&target.address()).await? {
            Some(accepted) => stored_in::<C, T::Document>(&accepted).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a document with the mark of its last write, to find out after a lost answer whether a
    /// [marked](WriteMark) write took effect. Ask a [`latest_committed`](Self::latest_committed)
    /// handle, because another replica may not have the write yet.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_with_mark<T>(
        &self,
        target: T,
    ) -> Result<Option<(Stored<T::Document>, Option<WriteMark>)>>
    where
        T: Target,
        T::Document: MemberOf<C>,
        T::Partition: KnownPartition,
    {
        let Some(accepted) = self.find(&target.address()).await? else {
            return Ok(None);
        };
        let stored = stored_in::<C, T::Document>(&accepted)?;
        Ok(Some((stored, WriteMark::of(accepted.text()?))))
    }

    async fn find<D, P: KnownPartition>(
        &self,
        address: &DocumentAddress<D, P>,
    ) -> Result<Option<Accepted>> {
        let id = address.id().map_err(Error::encode)?;
        let partition = address.partition().clone().into_key();
        Self::check_key(&partition)?;
        self.read_accepted(&partition, id).await
    }

    /// Reads an item; `None` when it does not exist.
    pub(super) async fn read_accepted(
        &self,
        partition: &PartitionKey,
        id: &ItemId,
    ) -> Result<Option<Accepted>> {
        let request = self.item_request(RequestKind::Read, Method::GET, id)?;
        let request = request.in_partition(partition)?;
        let request = self.consistent(request.session(self.context.session_of(partition)));
        match self.context.send(&request).await {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if error.status() == Some(ResponseStatus::ITEM_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a request for one item, without a body.
    pub(super) fn item_request(
        &self,
        kind: RequestKind,
        method: Method,
        id: &ItemId,
    ) -> Result<Request> {
        let resource = self.context.resource.item(id.as_str())?;
        Ok(Request::new(kind, method, resource))
    }

    /// Adds this handle's consistency to a read.
    pub(super) fn consistent(&self, request: Request) -> Request {
        if self.latest_committed {
            request.header(header::READ_CONSISTENCY, "LatestCommitted")
        } else {
            request
        }
    }
}

pub(super) fn stored_in<C: Container, D: MemberOf<C>>(accepted: &Accepted) -> Result<Stored<D>> {
    let decoded = decode::<C, D>(accepted.text()?);
    decoded.map_err(|error| accepted.unusable(Error::decode(error)))
}
