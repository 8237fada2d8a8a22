//! The targets of a query: one document type, or all types of a container.

use crate::container::{Container, MemberOf};
use crate::document::{DecodeError, Stored};
use crate::shape::DocumentShape;
use crate::stored::{decode, decode_any};

/// A document type or a container. Implemented by the derives.
pub trait Queryable: Sized + Send + Sync + 'static {
    /// The types of the rows.
    #[doc(hidden)]
    const SHAPES: &'static [&'static DocumentShape];
    /// Whether a container has documents of other types too, so that a query must filter by the
    /// discriminators of these types.
    #[doc(hidden)]
    const IS_PARTIAL: bool;
}

/// A document type or container whose rows can be read from container `C`. Implemented by the
/// derives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not stored in container `{C}`",
    note = "add a variant for it to the container's enum"
)]
pub trait QueriedIn<C: Container>: Queryable {
    /// Reads a whole stored document.
    ///
    /// # Errors
    /// When it has another type or does not match its type.
    #[doc(hidden)]
    fn read_stored(json: &str) -> Result<Stored<Self>, DecodeError>;
}

/// For generated code: reads a row of one document type.
#[doc(hidden)]
pub fn read_document<C: Container, D: MemberOf<C>>(json: &str) -> Result<Stored<D>, DecodeError> {
    decode::<C, D>(json)
}

/// For generated code: reads a row of any type of a container.
#[doc(hidden)]
pub fn read_any<C: Container>(json: &str) -> Result<Stored<C>, DecodeError> {
    decode_any::<C>(json)
}
