//! Projections: structs of some fields of a document type.

use serde::de::DeserializeOwned;

use crate::document::{Document, Path};

/// Some fields of a document type, which [`Query::select`](crate::Query::select) reads. Implemented
/// by [`#[derive(Projection)]`](macro@crate::Projection).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection",
    note = "add `#[derive(Projection, Deserialize)]` and `#[projection(of = …)]` to it"
)]
pub trait Projection: DeserializeOwned + Send + 'static {
    /// The document type.
    type Document: Document;
    /// The name of the projection, for errors.
    #[doc(hidden)]
    const NAME: &'static str;
    /// The fields.
    #[doc(hidden)]
    const FIELDS: &'static [ProjectedField];
}

/// One field of a projection.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectedField {
    /// The name that the projection reads.
    pub name: &'static str,
    /// The stored path in the document.
    pub pointer: &'static str,
}

/// Equality of the types of a field in a projection and in its document.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the document has this field with type `{V}`, not `{Self}`",
    label = "wrong type of a projected field",
    note = "a projection has the types of its document"
)]
pub trait HasType<V> {}

impl<V> HasType<V> for V {}

impl<D, V, I, M> Path<D, V, I, M> {
    /// For generated code: a field with type `W` of a projection. A method, so that `V` is known
    /// when the compiler looks for `HasType`.
    #[doc(hidden)]
    pub const fn projected<W: HasType<V>>(self, name: &'static str) -> ProjectedField {
        ProjectedField {
            name,
            pointer: self.pointer(),
        }
    }
}
