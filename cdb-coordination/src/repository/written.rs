//! A write of a document, sent until its outcome is known.
//!
//! After a lost answer the stored document decides. The write took place if the document has its
//! mark; it is sent again if the document has the version that the write must find. Another version
//! without the mark decides nothing, whatever its content: another writer may have replaced it.

use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::document::{
    Create, Delete, DocumentAddress, KnownPartition, Replace, Upsert, WriteMark,
};
use cdb_model::operation::OperationError;
use cdb_model::{Container, Document, ETag, Patch, Stored, Timestamp};

use super::error::RepositoryError;
use crate::lease::{Fenced, FencedWrite, Found, execute_fenced};

/// An operation that a [`Repository`](crate::Repository) executes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operation of this repository",
    note = "a repository takes `document.create()`, `document.upsert()`, `stored.replace()`, `key.patch()` and `key.delete()` of its document type"
)]
pub trait RepositoryOperation<D> {
    /// What its execution returns.
    type Answer;

    #[doc(hidden)]
    fn into_change(self) -> Change<D>;

    #[doc(hidden)]
    fn answer(completed: Completed<D>) -> Option<Self::Answer>;
}

/// Cannot be named outside this crate, so that no other crate implements [`RepositoryOperation`].
#[derive(Debug)]
pub enum Change<D> {
    Create(Create<D>),
    Upsert(Upsert<D>),
    Replace(Replace<D>),
    Patch(Patch<D, DocumentAddress<D>>),
    Delete(Delete<D>),
}

/// A change that took place.
#[derive(Debug)]
pub struct Completed<D> {
    pub(super) address: DocumentAddress<D>,
    /// The document, if the change contains it.
    pub(super) document: Option<D>,
    /// The version that the change left; `None` after a deletion.
    pub(super) etag: Option<ETag>,
    pub(super) now: Timestamp,
}

macro_rules! whole_documents {
    ($($operation:ident)*) => {$(
        impl<D: Document> RepositoryOperation<D> for $operation<D> {
            type Answer = Stored<D>;

            fn into_change(self) -> Change<D> {
                Change::$operation(self)
            }

            fn answer(completed: Completed<D>) -> Option<Stored<D>> {
                Some(Stored {
                    id: completed.address.id().ok()?.clone(),
                    document: completed.document?,
                    etag: completed.etag?,
                    timestamp: completed.now,
                })
            }
        }
    )*};
}

whole_documents!(Create Upsert Replace);

impl<D: Document, P: KnownPartition> RepositoryOperation<D> for Patch<D, DocumentAddress<D, P>> {
    type Answer = ETag;

    fn into_change(self) -> Change<D> {
        let (address, patch) = self.into_parts();
        Change::Patch(patch.at(address.into_known()))
    }

    fn answer(completed: Completed<D>) -> Option<ETag> {
        completed.etag
    }
}

impl<D: Document, P: KnownPartition> RepositoryOperation<D> for Delete<D, P> {
    type Answer = ();

    fn into_change(self) -> Change<D> {
        Change::Delete(self.address().clone().into_known().delete())
    }

    fn answer(_: Completed<D>) -> Option<()> {
        Some(())
    }
}

/// Executes a change.
pub(super) async fn write<C: Container, D: MemberOf<C>>(
    container: &ContainerClient<C>,
    change: Change<D>,
) -> Result<Completed<D>, RepositoryError> {
    let (address, document) = change.parts()?;
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    let mut write = Write {
        mark: WriteMark::new(high ^ low),
        version: address.required_version().cloned(),
        address: address.unconditional(),
        container,
        change,
        document,
        found: None,
    };
    // The content of a patched document does not tell whether the patch took place.
    let fenced = match write.change {
        Change::Patch(_) => Fenced::Committed(Some(
            write.send().await.map_err(|error| write.refused(error))?,
        )),
        _ => match execute_fenced(&mut write).await {
            Ok(fenced) => fenced,
            Err(RepositoryError::Client(error)) => return Err(write.refused(error)),
            Err(error) => return Err(error),
        },
    };
    let etag = match fenced {
        Fenced::Committed(Some(etag)) => etag,
        Fenced::Committed(None) | Fenced::CommittedBefore => write.found,
        Fenced::Refused(error) | Fenced::Unknown(Some(error)) => return Err(write.refused(error)),
        Fenced::Lost | Fenced::Unknown(None) => return Err(write.changed()),
    };
    Ok(Completed {
        address: write.address,
        document: write.document,
        etag,
        now: container.now(),
    })
}

struct Write<'a, C, D> {
    container: &'a ContainerClient<C>,
    change: Change<D>,
    address: DocumentAddress<D>,
    version: Option<ETag>,
    document: Option<D>,
    /// The version with the mark.
    found: Option<ETag>,
    mark: WriteMark,
}

impl<C: Container, D: MemberOf<C>> FencedWrite for Write<'_, C, D> {
    type Container = C;
    /// The version that the write left; `None` after a deletion.
    type Answer = Option<ETag>;
    type Error = RepositoryError;

    fn container(&self) -> &ContainerClient<C> {
        self.container
    }

    fn may_be_repeated(&self) -> bool {
        false
    }

    async fn send(&self) -> Result<Option<ETag>, Error> {
        let mark = &self.mark;
        let written = match &self.change {
            Change::Create(create) => self.container.run(create.clone().marked(mark)).await?,
            Change::Upsert(upsert) => self.container.run(upsert.clone().marked(mark)).await?,
            Change::Replace(replace) => self.container.run(replace.clone().marked(mark)).await?,
            Change::Patch(patch) => self.container.run(patch.clone()).await?,
            Change::Delete(delete) => {
                self.container.run(delete.clone()).await?;
                return Ok(None);
            }
        };
        Ok(Some(written.etag))
    }

    /// Fails when another writer has changed or deleted the document, which decides nothing.
    async fn find_out(&mut self, latest: &ContainerClient<C>) -> Result<Found, RepositoryError> {
        let Some((found, mark)) = latest.read_with_mark(self.address.clone()).await? else {
            return match (&self.change, &self.version) {
                (Change::Create(_) | Change::Upsert(_), _) => Ok(Found::Unchanged),
                (Change::Delete(_), None) => Ok(Found::Done),
                _ => Err(self.changed()),
            };
        };
        if mark.as_ref() == Some(&self.mark) {
            self.found = Some(found.etag);
            // Another writer may have patched it.
            self.document = Some(found.document);
            return Ok(Found::Done);
        }
        match (&self.change, &self.version) {
            (Change::Create(_), _) => Err(self.changed()),
            (_, Some(version)) if *version != found.etag => Err(self.changed()),
            // The version that the write must find, or a write without a required version, which
            // may be repeated.
            _ => Ok(Found::Unchanged),
        }
    }

    /// The document is read only after a lost answer.
    fn unread(lost: Error, _: RepositoryError) -> RepositoryError {
        lost.into()
    }
}

impl<C, D> Write<'_, C, D> {
    fn id(&self) -> String {
        let id = self.address.id();
        id.map(ToString::to_string).unwrap_or_default()
    }

    fn changed(&self) -> RepositoryError {
        RepositoryError::Changed { id: self.id() }
    }

    fn refused(&self, error: Error) -> RepositoryError {
        let creates = matches!(self.change, Change::Create(_) | Change::Upsert(_));
        let id = self.id();
        if error.is_ambiguous() {
            RepositoryError::Undecided { id, lost: error }
        } else if error.is_conflict() || error.is_unique_key_conflict() {
            RepositoryError::Exists { id }
        } else if error.is_precondition_failed() {
            RepositoryError::Changed { id }
        } else if error.is_not_found() && !creates {
            RepositoryError::Gone { id }
        } else {
            error.into()
        }
    }
}

impl<D: Document> Change<D> {
    /// The address, and the document if the change contains it.
    fn parts(&self) -> Result<(DocumentAddress<D>, Option<D>), OperationError> {
        let (address, document) = match self {
            Self::Create(create) => (create.address().clone(), Some(create.document()?)),
            Self::Upsert(upsert) => (upsert.address().clone(), Some(upsert.document()?)),
            Self::Replace(replace) => (replace.address().clone(), Some(replace.document()?)),
            Self::Patch(patch) => (patch.clone().into_parts().0, None),
            Self::Delete(delete) => (delete.address().clone(), None),
        };
        address.id()?;
        Ok((address, document))
    }
}
