//! What a query can ask for: one document type, or everything in a container.

use crate::codec::{DecodeError, decode, decode_any};
use crate::container::{Container, MemberOf};
use crate::document::Stored;
use crate::shape::DocumentShape;

/// A document type or a container. Implemented by the derives.
pub trait Queryable: Sized + Send + Sync + 'static {
    /// The types that rows can be of.
    #[doc(hidden)]
    const SHAPES: &'static [&'static DocumentShape];
    /// Whether this is one document type, so that a query must ask for its discriminator.
    #[doc(hidden)]
    const SINGLE_TYPE: bool;
}

/// Rows of a `T` can be read from container `C`. Implemented by the derives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not stored in container `{C}`",
    note = "add a variant for it to the container's enum"
)]
pub trait QueriedIn<C: Container>: Queryable {
    /// Reads a whole stored document.
    ///
    /// # Errors
    /// When it is of another type or does not fit.
    #[doc(hidden)]
    fn read_stored(json: &str) -> Result<Stored<Self>, DecodeError>;
}

/// For generated code: a row of one document type.
#[doc(hidden)]
pub fn read_document<C: Container, D: MemberOf<C>>(json: &str) -> Result<Stored<D>, DecodeError> {
    decode::<C, D>(json)
}

/// For generated code: a row of any type of a container.
#[doc(hidden)]
pub fn read_any<C: Container>(json: &str) -> Result<Stored<C>, DecodeError> {
    decode_any::<C>(json)
}
