//! Soft deletion of documents.

use cdb_model::container::MemberOf;
use cdb_model::document::KnownPartition;
use cdb_model::operation::{SoftDelete, Target};
use cdb_model::{Container, Patch};

use crate::container::handle::ContainerClient;
use crate::container::point::Written;
use crate::error::Result;

impl<C: Container> ContainerClient<C> {
    /// Marks a document as deleted [now](Self::now). Queries do not return it afterwards; reads by
    /// key do. Another call replaces the time.
    ///
    /// A batch takes the patch [`Patch::soft_delete`].
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) when the document does not exist.
    pub async fn soft_delete<T>(&self, target: T) -> Result<Written>
    where
        T: Target,
        T::Document: MemberOf<C> + SoftDelete,
        T::Partition: KnownPartition,
    {
        let patch = Patch::new().soft_delete(self.now());
        self.run(patch.at(target)).await
    }

    /// Removes the mark of a soft deletion. A document without the mark stays as it is.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) when the document does not exist.
    pub async fn restore<T>(&self, target: T) -> Result<Written>
    where
        T: Target,
        T::Document: MemberOf<C> + SoftDelete,
        T::Partition: KnownPartition,
    {
        self.run(Patch::new().restore().at(target)).await
    }
}
