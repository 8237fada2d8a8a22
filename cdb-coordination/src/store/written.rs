//! A write of a whole document, sent until its outcome is known.
//!
//! After a lost answer the stored document decides. The write took place if the document has the
//! content of the write; it is sent again if the document has the version that the write must find.
//! If another writer stored the same content, the write counts as done: the result is the same.

use cdb_client::{ContainerClient, Error};
use cdb_model::{Container, Document, DocumentKey, ETag, MemberOf, Stored};

use super::error::StoreError;
use crate::content::is_same;
use crate::lease::{Fenced, FencedWrite, Found, execute_fenced};

/// What is written.
pub(super) enum Change<'a, D> {
    Create(&'a D),
    Update(&'a Stored<D>),
    Delete(&'a Stored<D>),
}

/// Returns the version that the change left, `None` after a deletion.
pub(super) async fn write<C: Container, D: MemberOf<C>>(
    container: &ContainerClient<C>,
    change: &Change<'_, D>,
) -> Result<Option<ETag>, StoreError> {
    let mut write = Write {
        container,
        change,
        found: None,
    };
    match execute_fenced(&mut write).await? {
        Fenced::Committed(Some(etag)) => Ok(etag),
        Fenced::Committed(None) | Fenced::CommittedBefore => Ok(write.found),
        Fenced::Refused(error) | Fenced::Unknown(Some(error)) => Err(change.refused(error)),
        Fenced::Lost | Fenced::Unknown(None) => Err(change.conflict(false)?),
    }
}

struct Write<'a, C, D> {
    container: &'a ContainerClient<C>,
    change: &'a Change<'a, D>,
    /// The version with the content of the write.
    found: Option<ETag>,
}

impl<C: Container, D: MemberOf<C>> FencedWrite for Write<'_, C, D> {
    type Container = C;
    /// The version that the write left; `None` after a deletion.
    type Answer = Option<ETag>;
    type Error = StoreError;

    fn container(&self) -> &ContainerClient<C> {
        self.container
    }

    fn may_be_repeated(&self) -> bool {
        false
    }

    async fn send(&self) -> Result<Option<ETag>, Error> {
        match self.change {
            Change::Create(document) => Ok(Some(self.container.create(*document).await?.etag)),
            Change::Update(stored) => {
                let (document, etag) = (&stored.document, &stored.etag);
                let written = self.container.replace_if_match(document, etag).await?;
                Ok(Some(written.etag))
            }
            Change::Delete(stored) => {
                self.container.delete_stored(stored).await?;
                Ok(None)
            }
        }
    }

    /// Fails when another writer has changed the document.
    async fn find_out(&mut self, latest: &ContainerClient<C>) -> Result<Found, StoreError> {
        let document = self.change.document();
        let key = document.key();
        let found = latest.read_in(document.partition_key(), &key).await?;
        match (self.change, found) {
            (Change::Create(_), None) => Ok(Found::Unchanged),
            (Change::Delete(_), None) => Ok(Found::Done),
            (Change::Update(_), None) => Err(self.change.conflict(true)?),
            (Change::Update(seen) | Change::Delete(seen), Some(found))
                if found.etag == seen.etag =>
            {
                Ok(Found::Unchanged)
            }
            (Change::Create(_) | Change::Update(_), Some(found))
                if is_same(&found.document, document) =>
            {
                self.found = Some(found.etag);
                Ok(Found::Done)
            }
            (_, Some(_)) => Err(self.change.conflict(false)?),
        }
    }

    fn unread(lost: Error, error: StoreError) -> StoreError {
        match error {
            StoreError::Client(_) => lost.into(),
            error => error,
        }
    }
}

impl<D: Document> Change<'_, D> {
    fn document(&self) -> &D {
        match self {
            Self::Create(document) => document,
            Self::Update(stored) | Self::Delete(stored) => &stored.document,
        }
    }

    /// The error after another writer was faster.
    fn conflict(&self, is_gone: bool) -> Result<StoreError, StoreError> {
        let id = self.document().key().to_id()?.to_string();
        Ok(match self {
            Self::Create(_) => StoreError::Exists { id },
            _ if is_gone => StoreError::Gone { id },
            _ => StoreError::Changed { id },
        })
    }

    fn refused(&self, error: Error) -> StoreError {
        let is_conflict = match self {
            Self::Create(_) => error.is_conflict(),
            _ => error.is_precondition_failed() || error.is_not_found(),
        };
        if !is_conflict {
            return error.into();
        }
        self.conflict(error.is_not_found())
            .unwrap_or_else(|error| error)
    }
}
