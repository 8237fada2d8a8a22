//! Soft deletion of documents.

use cdb_model::{Container, LocatedKey, MemberOf, PartitionKey, Patch, SoftDelete};

use crate::container::handle::ContainerClient;
use crate::container::point::Written;
use crate::error::Result;

impl<C: Container> ContainerClient<C> {
    /// Marks the document with this key as deleted [now](Self::now). Queries do not return it
    /// afterwards; reads by key do. Another call replaces the time.
    ///
    /// A batch takes the patch
    /// [`Patch::soft_delete`](cdb_model::Patch::soft_delete).
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) when the document does not exist.
    pub async fn soft_delete<D>(&self, key: &D::Key) -> Result<Written>
    where
        D: MemberOf<C> + SoftDelete,
        D::Key: LocatedKey,
    {
        self.soft_delete_in::<D>(key.partition_key(), key).await
    }

    /// As [`soft_delete`](Self::soft_delete), for keys without a partition key.
    ///
    /// # Errors
    /// As [`soft_delete`](Self::soft_delete).
    pub async fn soft_delete_in<D>(
        &self,
        partition: impl Into<PartitionKey>,
        key: &D::Key,
    ) -> Result<Written>
    where
        D: MemberOf<C> + SoftDelete,
    {
        let patch = Patch::<D>::new().soft_delete(self.now());
        self.patch_in(partition, key, &patch).await
    }

    /// Removes the mark of a soft deletion. A document without the mark stays as it is.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) when the document does not exist.
    pub async fn restore<D>(&self, key: &D::Key) -> Result<Written>
    where
        D: MemberOf<C> + SoftDelete,
        D::Key: LocatedKey,
    {
        self.restore_in::<D>(key.partition_key(), key).await
    }

    /// As [`restore`](Self::restore), for keys without a partition key.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub async fn restore_in<D>(
        &self,
        partition: impl Into<PartitionKey>,
        key: &D::Key,
    ) -> Result<Written>
    where
        D: MemberOf<C> + SoftDelete,
    {
        let patch = Patch::<D>::new().restore();
        self.patch_in(partition, key, &patch).await
    }
}
