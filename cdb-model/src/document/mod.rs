//! Paths of a document type, and operations on single documents as values.

mod crud;
pub(crate) mod document_type;
mod error;
pub(crate) mod etag;
mod partition;
mod path;
mod write_mark;

pub(crate) use crud::WholeDocument;
pub use crud::{Create, Delete, DocumentAddress, Read, Replace, Upsert};
pub use document_type::FieldCodec;
pub(crate) use document_type::{Document, DocumentKey, Stored};
pub use error::{DecodeError, EncodeError};
pub(crate) use etag::ETag;
pub use partition::{BatchPartition, KnownPartition, Partition};
pub use path::{Computed, Embedding, Fixed, FullText, Indexed, Patchable, Path, Unindexed};
pub(crate) use write_mark::MARK;
pub use write_mark::WriteMark;
