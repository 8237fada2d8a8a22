//! Soft deletion: a document that is marked as deleted, and that queries do not return.

use super::patch::Patch;
use crate::document::{Document, Indexed, Patchable, Path};
use crate::value::Timestamp;

/// The path of the time of a soft deletion.
pub type DeletionPath<D> = Path<D, Option<Timestamp>, Indexed, Patchable>;

/// A document type with a field `#[document(soft_delete)]`.
///
/// Queries of the type, or of its container, return documents whose field is null or missing;
/// [`Query::with_deleted`](crate::Query::with_deleted) returns all. Reads by key and change feeds
/// also return soft-deleted documents.
///
/// ```
/// use cdb_model::{Document, Patch, Query, Timestamp};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "note", id = "{number}")]
/// struct Note {
///     #[document(partition_key)]
///     author: String,
///     number: u64,
///     #[document(soft_delete)]
///     deleted_at: Option<Timestamp>,
/// }
///
/// fn deleted_before(time: Timestamp) -> Query<Note> {
///     Query::across_partitions().with_deleted().filter(Note::DELETED_AT.lt(Some(time)))
/// }
///
/// let patch = Patch::<Note>::new().soft_delete(Timestamp::from_secs(1_700_000_000));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no field `#[document(soft_delete)]`",
    note = "mark a field of type `Option<cdb_model::Timestamp>`"
)]
pub trait SoftDelete: Document {
    /// The path of the field.
    const TIME_OF_DELETION: DeletionPath<Self>;
}

impl<D: Document, T> Patch<D, T> {
    /// Marks the document as deleted at `time`.
    pub fn soft_delete(self, time: Timestamp) -> Self
    where
        D: SoftDelete,
    {
        self.set(D::TIME_OF_DELETION, Some(time))
    }

    /// Removes the mark of a soft deletion.
    pub fn restore(self) -> Self
    where
        D: SoftDelete,
    {
        self.set(D::TIME_OF_DELETION, None)
    }
}
