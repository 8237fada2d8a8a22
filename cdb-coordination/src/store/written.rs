//! A write under an ETag, and whether it happened.
//!
//! After a lost answer the document is read: it is as the write leaves it, or as the write found it and the write may be sent
//! again under the same ETag, or somebody else's. Documents are compared as JSON, since a type need not be comparable; who
//! wrote the very same content a moment before is not told apart, which changes nothing.

use cdb_client::{ContainerClient, Error};
use cdb_model::{Container, Document, DocumentKey, ETag, MemberOf, Stored};

use super::error::StoreError;

/// How often a write goes out whose outcome stays open although the document could be read in between.
const ATTEMPTS: u32 = 4;

/// What is written.
pub(super) enum Change<'a, D> {
    Create(&'a D),
    Update(&'a Stored<D>),
    Delete(&'a Stored<D>),
}

/// Carries a change out.
pub(super) struct Writer<'a, C> {
    container: &'a ContainerClient<C>,
}

/// What was found after a lost answer.
enum Found {
    Done(Option<ETag>),
    NotYet,
    Other(StoreError),
}

impl<'a, C: Container> Writer<'a, C> {
    pub(super) fn new(container: &'a ContainerClient<C>) -> Self {
        Self { container }
    }

    /// The version that the change left; none after a deletion.
    pub(super) async fn write<D: MemberOf<C>>(
        &self,
        change: &Change<'_, D>,
    ) -> Result<Option<ETag>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match self.send(change).await {
                Ok(etag) => return Ok(etag),
                Err(error) => error,
            };
            // Also a refusal, once an attempt before it stayed open: that one may be what was in the way.
            if !error.is_ambiguous() && attempts == 1 {
                return Err(change.refused(error));
            }
            match self.look(change).await? {
                Found::Done(etag) => return Ok(etag),
                Found::Other(error) => return Err(error),
                Found::NotYet if attempts < ATTEMPTS && error.is_ambiguous() => {}
                Found::NotYet => return Err(change.refused(error)),
            }
        }
    }

    async fn send<D: MemberOf<C>>(&self, change: &Change<'_, D>) -> Result<Option<ETag>, Error> {
        match change {
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

    async fn look<D: MemberOf<C>>(&self, change: &Change<'_, D>) -> Result<Found, StoreError> {
        let now = self.container.latest_committed();
        let document = change.document();
        let found = now
            .read_in(&document.partition_key(), &document.key())
            .await?;
        Ok(match (change, found) {
            (Change::Create(_), None) => Found::NotYet,
            (Change::Delete(_), None) => Found::Done(None),
            (Change::Update(_), None) => Found::Other(change.conflict(true)?),
            (Change::Update(seen) | Change::Delete(seen), Some(found))
                if found.etag == seen.etag =>
            {
                Found::NotYet
            }
            (Change::Create(_) | Change::Update(_), Some(found))
                if is_same(&found.document, document) =>
            {
                Found::Done(Some(found.etag))
            }
            (_, Some(_)) => Found::Other(change.conflict(false)?),
        })
    }
}

impl<D: Document> Change<'_, D> {
    fn document(&self) -> &D {
        match self {
            Self::Create(document) => document,
            Self::Update(stored) | Self::Delete(stored) => &stored.document,
        }
    }

    /// Somebody else's document, or none, in the place of the one that was expected.
    fn conflict(&self, is_gone: bool) -> Result<StoreError, StoreError> {
        let id = self.document().key().to_id()?.to_string();
        Ok(match self {
            Self::Create(_) => StoreError::Exists { id },
            _ if is_gone => StoreError::Gone { id },
            _ => StoreError::Changed { id },
        })
    }

    fn refused(&self, error: Error) -> StoreError {
        let conflict = match self {
            Self::Create(_) => error.is_conflict(),
            _ => error.is_precondition_failed() || error.is_not_found(),
        };
        if !conflict {
            return error.into();
        }
        self.conflict(error.is_not_found())
            .unwrap_or_else(|error| error)
    }
}

fn is_same<D: Document>(found: &D, wanted: &D) -> bool {
    match (serde_json::to_value(found), serde_json::to_value(wanted)) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => false,
    }
}
