//! The items that generated code uses. Not public API: it can change in any release.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::shape::AbsentValue;
use crate::stored::UnknownFields;
use crate::value::numbers;

pub use core::clone::Clone;
pub use core::cmp::{Eq, Ord, PartialEq, PartialOrd};
pub use core::convert::{From, Into};
pub use core::default::Default;
pub use core::fmt::Debug;
pub use core::hash::Hash;
pub use core::option::Option;
pub use core::option::Option::{None, Some};
pub use core::primitive::{bool, str};
pub use core::result::Result;
pub use std::string::String;
pub use std::vec;

pub use core::marker::PhantomData;
pub use derive_where;

pub use crate::conflict::{
    Place, check_computed, check_discriminator, check_ids, check_indexing, check_partition_key,
    check_search, check_ttl, check_type, check_unique, flattened_key,
};
pub use crate::container::definition::Container;
pub use crate::container::{DefaultTtl, Extends, MemberOf};
pub use crate::document::document_type::{Document, DocumentKey, Stored};
pub use crate::document::{
    BatchPartition, Computed, DecodeError, Delete, DocumentAddress, Embedding, FieldCodec, Fixed,
    FullText, Indexed, Patchable, Path, Unindexed,
};
pub use crate::operation::patch::Patch;
pub use crate::operation::{DeletionPath, Leasable, Lease, LeasePaths, SoftDelete};
pub use crate::query::checked::{
    Column, column_of, element, equal, filtered, matched, ordered, ordered_argument, pointer_of,
    summed, untyped,
};
pub use crate::query::projection::{ProjectedField, Projection};
pub use crate::query::queryable::{read_any, read_document};
pub use crate::query::{Array, Composite, Documents, QueriedIn, Queryable, Sql};
pub use crate::shape::{
    CompositePath, CompositeShape, CompositeTarget, ComputedShape, Direction, DocumentShape,
    ExpressionPart, FieldIndexing, FieldShape, FullTextShape, IdSegment, VectorDistance,
    VectorElement, VectorIndexKind, VectorShape,
};
pub use crate::sql::{AggregateKind, Fragment, IndexUse};
pub use crate::stored::codec::decode_fields;
pub use crate::value::id::{IdCodec, IdParts, format_id, id_codec};
pub use crate::value::partition_key::{PartitionKey, PartitionKeyFields};
pub use crate::value::scalar::Scalar;
pub use crate::value::timestamp::Timestamp;
pub use crate::value::{IdError, IdPart, ItemId, Ordered, PartitionKeyPart, PartitionKeyValue};

/// Finds the codec of a document: `(&FindCodec::<Order>::start()).field_codec()`. The method is that of
/// [`SerdeCodec`] if the type has serde's traits. Otherwise it is that of [`MissingCodec`], one call
/// further away, whose bound is the error that the user reads.
#[derive(Debug)]
pub struct FindCodec<D>(PhantomData<fn() -> D>);

impl<D> FindCodec<D> {
    /// Starts the search.
    pub const fn start() -> Self {
        Self(PhantomData)
    }
}

/// The codec of a type with serde's traits.
pub trait SerdeCodec<D> {
    /// Returns the codec.
    fn field_codec(&self) -> FieldCodec<D>;
}

impl<D: Serialize + DeserializeOwned> SerdeCodec<D> for FindCodec<D> {
    fn field_codec(&self) -> FieldCodec<D> {
        FieldCodec::serde()
    }
}

/// The codec of all other types, which does not compile.
pub trait MissingCodec<D> {
    /// Never returns.
    fn field_codec(&self) -> FieldCodec<D>
    where
        D: HasSerde;
}

impl<D> MissingCodec<D> for &FindCodec<D> {
    fn field_codec(&self) -> FieldCodec<D>
    where
        D: HasSerde,
    {
        unreachable!("no type implements `HasSerde`")
    }
}

/// No type implements this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is stored as JSON, but does not implement serde's `Serialize` and `Deserialize`",
    label = "add `#[derive(serde::Serialize, serde::Deserialize)]`"
)]
pub trait HasSerde {}

/// Tells whether a type is [`Ordered`], as a constant: `OrderOf::<u64>::IS_ORDERED` is that of the
/// inherent impl if the type is, else that of [`Unordered`].
#[derive(Debug)]
pub struct OrderOf<T>(PhantomData<fn() -> T>);

impl<T: Ordered> OrderOf<T> {
    /// The index has the order of the type.
    pub const IS_ORDERED: bool = true;
}

/// The answer for other types.
pub trait Unordered {
    /// The index has another order than the type, or none.
    const IS_ORDERED: bool = false;
}

impl<T> Unordered for OrderOf<T> {}

/// Tells what a type without a default is read as if its path is missing, as a constant:
/// `AbsentOf::<u64>::VALUE` is that of [`Required`], that of an `Option` of the inherent impl.
#[derive(Debug)]
pub struct AbsentOf<T>(PhantomData<fn() -> T>);

impl<T> AbsentOf<Option<T>> {
    /// Null.
    pub const VALUE: Option<AbsentValue> = Some(|| Ok(serde_json::Value::Null));
}

/// The answer for other types.
pub trait Required {
    /// No value: the document cannot be read.
    const VALUE: Option<AbsentValue> = None;
}

impl<T> Required for AbsentOf<T> {}

/// Returns the stored form of a default.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn stored_default<T: Serialize>(value: &T) -> serde_json::Result<serde_json::Value> {
    numbers::to_value(value)
}

/// The bounds of a type parameter of a document without a `bound`.
pub trait StoredField: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> StoredField for T {}

/// A document's time to live: seconds from 1, or -1 for never.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a time to live",
    label = "this field is marked `#[document(ttl)]`",
    note = "use seconds as a `u32`, or an `Option` of it"
)]
pub trait TimeToLive {}

impl TimeToLive for u32 {}
impl TimeToLive for i32 {}
impl TimeToLive for core::num::NonZeroU32 {}
impl<T: TimeToLive> TimeToLive for Option<T> {}

/// Compiles when `T` can be a time to live.
pub const fn is_time_to_live<T: TimeToLive>() {}

/// Fields of newer versions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot keep unknown fields",
    label = "this field is marked `#[document(unknown)]`",
    note = "use `cdb_model::stored::UnknownFields`"
)]
pub trait KeepsUnknownFields {}

impl KeepsUnknownFields for UnknownFields {}

/// Compiles when `T` keeps unknown fields.
pub const fn keeps_unknown_fields<T: KeepsUnknownFields>() {}

/// The time of a soft deletion.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the time of a soft deletion",
    label = "this field is marked `#[document(soft_delete)]`",
    note = "use `Option<cdb_model::Timestamp>`"
)]
pub trait TimeOfDeletion {}

impl TimeOfDeletion for Option<Timestamp> {}

/// Compiles when `T` can be the time of a soft deletion.
pub const fn is_time_of_deletion<T: TimeOfDeletion>() {}

/// The time of a write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the time of a write",
    label = "this field is marked `#[document(created_at)]` or `#[document(updated_at)]`",
    note = "use `Option<cdb_model::Timestamp>`, which is `None` until the document is written"
)]
pub trait TimeOfWrite {}

impl TimeOfWrite for Option<Timestamp> {}

/// Compiles when `T` can be the time of a write.
pub const fn is_time_of_write<T: TimeOfWrite>() {}

/// Compiles when filters can compare a `T` for equality.
pub const fn is_scalar<T: Scalar>() {}

/// Compiles when filters can search the elements of a `T`.
pub const fn has_scalars<T: Array<Element: Scalar>>() {}

/// Compiles when queries can sort by a `T`.
pub const fn is_ordered<T: Ordered>() {}

/// A vector.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be searched by distance",
    label = "this field is marked `#[document(vector(…))]`",
    note = "use `Vec<f32>`, `Vec<i8>` or `Vec<u8>`, or an `Option` of it"
)]
pub trait VectorField {
    /// The type of the numbers.
    const ELEMENT: VectorElement;
}

impl VectorField for Vec<f32> {
    const ELEMENT: VectorElement = VectorElement::Float32;
}

impl VectorField for Vec<i8> {
    const ELEMENT: VectorElement = VectorElement::Int8;
}

impl VectorField for Vec<u8> {
    const ELEMENT: VectorElement = VectorElement::Uint8;
}

impl<V: VectorField> VectorField for Option<V> {
    const ELEMENT: VectorElement = V::ELEMENT;
}

/// A text for full-text search.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be searched by words",
    label = "this field is marked `#[document(full_text)]`",
    note = "use `String` or `Option<String>`"
)]
pub trait FullTextField {}

impl FullTextField for String {}
impl FullTextField for Option<String> {}

/// Compiles when `T` can be searched by words.
pub const fn is_full_text<T: FullTextField>() {}

/// The lease of a document.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a lease",
    label = "this field is marked `#[document(lease)]`",
    note = "use `cdb_model::operation::Lease`"
)]
pub trait LeaseField {
    /// Returns the lease.
    fn as_lease(&self) -> &Lease;
    /// Replaces the lease.
    fn put_lease(&mut self, lease: Lease);
}

impl LeaseField for Lease {
    fn as_lease(&self) -> &Lease {
        self
    }

    fn put_lease(&mut self, lease: Lease) {
        *self = lease;
    }
}

/// Returns the error for a discriminator that no type of the container has.
pub fn unknown_type(container: &'static str, discriminator: &str) -> DecodeError {
    DecodeError::UnknownType {
        container,
        discriminator: discriminator.to_owned(),
    }
}

/// Concatenates the types of an extended container and the container's own types.
pub const fn join_shapes<const N: usize>(
    first: &[&'static DocumentShape],
    second: &[&'static DocumentShape],
) -> [&'static DocumentShape; N] {
    assert!(N > 0, "a container has at least one document type");
    let mut all = [if first.is_empty() {
        second[0]
    } else {
        first[0]
    }; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() {
            first[at]
        } else {
            second[at - first.len()]
        };
        at += 1;
    }
    all
}

/// Returns the default time to live that the documents need: `PerDocument` if a type has a `ttl`,
/// else the inherited one.
pub const fn needed_ttl(inherited: DefaultTtl, documents: &[&'static DocumentShape]) -> DefaultTtl {
    if !matches!(inherited, DefaultTtl::Off) {
        return inherited;
    }
    let mut at = 0;
    while at < documents.len() {
        if documents[at].ttl.is_some() {
            return DefaultTtl::PerDocument;
        }
        at += 1;
    }
    DefaultTtl::Off
}

/// Returns the type of a document.
pub fn shape_of<D: Document>(_: &D) -> &'static DocumentShape {
    D::SHAPE
}
