//! What a query can ask for: one document type, or everything in a container.

use crate::codec::{decode, decode_any};
use crate::codec_error::DecodeError;
use crate::container::{Container, MemberOf};
use crate::document::Stored;
use crate::shape::DocumentShape;

/// A document type or a container. Implemented by the derives.
///
/// ```
/// use cdb_model::{Fetch, Query, Queryable};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// fn few<T: Queryable>(partition: &str) -> Query<T> {
///     Query::in_partition(partition).top(20)
/// }
/// // Of one type, or of all types of the container: only the first asks for a discriminator.
/// assert!(!Fetch::<Shop>::statement(&few::<Order>("ada")).parameters.is_empty());
/// assert!(Fetch::<Shop>::statement(&few::<Shop>("ada")).parameters.is_empty());
/// ```
pub trait Queryable: Sized + Send + Sync + 'static {
    /// The types that rows can be of.
    #[doc(hidden)]
    const SHAPES: &'static [&'static DocumentShape];
    /// Whether this is one document type, so that a query must ask for its discriminator.
    #[doc(hidden)]
    const SINGLE_TYPE: bool;
}

/// Rows of a `T` can be read from container `C`. Implemented by the derives.
///
/// ```
/// use cdb_model::{Container, Fetch, QueriedIn, Query};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// /// For a log: how everything of a `T` is asked for. `C` stores it, or the call does not compile.
/// fn all_of<C: Container, T: QueriedIn<C>>() -> String {
///     Fetch::<C>::statement(&Query::<T>::across_partitions()).sql
/// }
/// assert_eq!(all_of::<Shop, Shop>(), "SELECT * FROM c");
/// assert_ne!(all_of::<Shop, Order>(), all_of::<Shop, Shop>());
/// ```
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
