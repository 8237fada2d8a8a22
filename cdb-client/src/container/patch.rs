//! Patches: changes to parts of one document.

use cdb_model::{Container, DocumentKey, ETag, LocatedKey, MemberOf, PartitionKey, Patch, Stored};
use cdb_model::{Document, ItemId, PatchBody, PatchOperation};
use http::Method;

use crate::container::handle::ContainerClient;
use crate::container::point::Written;
use crate::error::{Error, Result};
use crate::header;
use crate::operation::OperationKind;
use crate::request::Request;
use crate::retry::Repeat;

/// Spelled as in Microsoft's documentation.
const PATCH: &str = "application/json_patch+json";

impl<C: Container> ContainerClient<C> {
    /// Patches the document with this key, if the condition of the patch holds.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found) when the document does not exist,
    /// [`is_precondition_failed`](Error::is_precondition_failed) when the condition does not hold;
    /// [`is_ambiguous`](Error::is_ambiguous) when the patch may have been applied.
    pub async fn patch<D>(&self, key: &D::Key, patch: &Patch<D>) -> Result<Written>
    where
        D: MemberOf<C>,
        D::Key: LocatedKey,
    {
        self.patch_in(key.partition_key(), key, patch).await
    }

    /// As [`patch`](Self::patch), for keys without a partition key.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub async fn patch_in<D: MemberOf<C>>(
        &self,
        partition: impl Into<PartitionKey>,
        key: &D::Key,
        patch: &Patch<D>,
    ) -> Result<Written> {
        let id = key.to_id().map_err(Error::encode)?;
        let body = patch.body(self.now()).map_err(Error::encode)?;
        let repeat = if is_idempotent(&body) {
            Repeat::Always
        } else {
            Repeat::IfNotExecuted
        };
        let partition = partition.into();
        let request = self.patch_request(&partition, &id, &body)?.repeat(repeat);
        self.write(id, &request).await
    }

    /// Patches the version `etag` of the document with this key.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub async fn patch_if_match<D>(
        &self,
        key: &D::Key,
        patch: &Patch<D>,
        etag: &ETag,
    ) -> Result<Written>
    where
        D: MemberOf<C>,
        D::Key: LocatedKey,
    {
        let id = key.to_id().map_err(Error::encode)?;
        self.patch_version(&key.partition_key(), id, patch, etag)
            .await
    }

    /// Patches exactly this stored version.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub async fn patch_stored<D: MemberOf<C>>(
        &self,
        stored: &Stored<D>,
        patch: &Patch<D>,
    ) -> Result<Written> {
        let partition = Document::partition_key(&stored.document);
        self.patch_version(&partition, stored.id.clone(), patch, &stored.etag)
            .await
    }

    async fn patch_version<D: MemberOf<C>>(
        &self,
        partition: &PartitionKey,
        id: ItemId,
        patch: &Patch<D>,
        etag: &ETag,
    ) -> Result<Written> {
        let body = patch.body(self.now()).map_err(Error::encode)?;
        let request = self.patch_request(partition, &id, &body)?.if_match(etag)?;
        self.write(id, &request).await
    }

    fn patch_request(
        &self,
        partition: &PartitionKey,
        id: &ItemId,
        body: &PatchBody,
    ) -> Result<Request> {
        self.item_request(OperationKind::Patch, Method::PATCH, partition, id)?
            .header(header::PREFER, "return=minimal")
            .json(PATCH, body)
    }
}

/// Whether a second execution has the same result as the first. A condition may no longer hold
/// after the first.
fn is_idempotent(body: &PatchBody) -> bool {
    body.condition.is_none()
        && body
            .operations
            .iter()
            .all(|operation| matches!(operation, PatchOperation::Set { .. }))
}
