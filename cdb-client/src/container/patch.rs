//! Changing parts of one document.

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

/// As Microsoft's own documentation spells it.
const PATCH: &str = "application/json_patch+json";

impl<C: Container> ContainerClient<C> {
    /// Changes the document with this key, if the patch's condition holds.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found) when there is none,
    /// [`is_precondition_failed`](Error::is_precondition_failed) when the condition does not hold;
    /// [`is_ambiguous`](Error::is_ambiguous) when the change may have been made.
    pub async fn patch<D>(&self, key: &D::Key, patch: &Patch<D>) -> Result<Written>
    where
        D: MemberOf<C>,
        D::Key: LocatedKey,
    {
        self.patch_in(&key.partition_key(), key, patch).await
    }

    /// [`patch`](Self::patch) for keys that do not hold their partition.
    ///
    /// # Errors
    /// The same.
    pub async fn patch_in<D: MemberOf<C>>(
        &self,
        partition: &PartitionKey,
        key: &D::Key,
        patch: &Patch<D>,
    ) -> Result<Written> {
        let id = key.to_id().map_err(Error::encode)?;
        let body = patch.body().map_err(Error::encode)?;
        let repeat = if changes_nothing_twice(&body) {
            Repeat::Always
        } else {
            Repeat::UnlessPossiblyDone
        };
        let request = self.patch_request(partition, &id, &body)?.repeat(repeat);
        self.write(id, &request).await
    }

    /// Changes the version `etag` of the document with this key.
    ///
    /// # Errors
    /// The same as [`patch`](Self::patch).
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
        self.patch_in_if_match(&key.partition_key(), key, patch, etag)
            .await
    }

    /// [`patch_if_match`](Self::patch_if_match) for keys that do not hold their partition.
    ///
    /// # Errors
    /// The same.
    pub async fn patch_in_if_match<D: MemberOf<C>>(
        &self,
        partition: &PartitionKey,
        key: &D::Key,
        patch: &Patch<D>,
        etag: &ETag,
    ) -> Result<Written> {
        let id = key.to_id().map_err(Error::encode)?;
        let body = patch.body().map_err(Error::encode)?;
        let request = self.patch_request(partition, &id, &body)?.if_match(etag)?;
        self.write(id, &request).await
    }

    /// Changes exactly this stored version, by the id it is stored under.
    ///
    /// # Errors
    /// The same as [`patch`](Self::patch).
    pub async fn patch_stored<D: MemberOf<C>>(
        &self,
        stored: &Stored<D>,
        patch: &Patch<D>,
    ) -> Result<Written> {
        let body = patch.body().map_err(Error::encode)?;
        let partition = Document::partition_key(&stored.document);
        let request = self
            .patch_request(&partition, &stored.id, &body)?
            .if_match(&stored.etag)?;
        self.write(stored.id.clone(), &request).await
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

/// Whether a second execution leaves what the first left, and is not refused because of it. A condition may no longer
/// hold after the first.
fn changes_nothing_twice(body: &PatchBody) -> bool {
    body.condition.is_none()
        && body
            .operations
            .iter()
            .all(|operation| matches!(operation, PatchOperation::Set { .. }))
}
