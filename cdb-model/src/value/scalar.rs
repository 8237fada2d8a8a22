//! Which types filters and sorts may compare.
//!
//! The service compares the JSON of stored values, not the values of Rust types. Both agree for a
//! type with one JSON form per value ([`Scalar`]), and for `<` only if the JSON has the order of the
//! type ([`Ordered`]). Two forms of one value (`"9.5"`, `"9.50"`) would make queries miss rows.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64,
};

use serde::de::DeserializeOwned;

use super::text_integer::TextInteger;
use super::timestamp::Timestamp;

/// A type whose values are stored as one string, number or boolean each: equal values in the same
/// form, different values in different ones. Filters compare them for equality.
///
/// An `f32` is not one: many numbers that other programs store are read as one `f32`. Use `f64` for a
/// number that filters compare; it reads and writes every stored number as it is.
///
/// Derive it for an enum of unit variants, each with its own stored name, and for a newtype. For another type that keeps the
/// promise, implement it: `impl Scalar for Colour {}`.
///
/// ```
/// use cdb_model::Scalar;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Scalar, Serialize, Deserialize)]
/// enum State {
///     Open,
///     Paid,
/// }
///
/// /// A newtype also has the order of its content, and can be in ids and partition keys.
/// #[derive(Scalar, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// struct Sku(u32);
/// ```
///
#[doc = include_str!("../../docs/types.md")]
#[diagnostic::on_unimplemented(
    message = "filters cannot compare `{Self}`, which may be stored as an object or in several forms",
    label = "this type is not a `Scalar`",
    note = "for an enum of unit variants or a newtype, add `#[derive(cdb_model::Scalar)]`",
    note = "for an `f32`, use `f64`: many stored numbers are read as one `f32`, and a filter would find only one of them",
    note = "for a struct, index paths inside it: `#[document(index(city: String))]`; for an array, filter with `contains`",
    note = "for a type of `chrono`, `jiff`, `rust_decimal`, `time` or `uuid`, enable the feature of this name of cdb-model; if it is still no `Scalar`, store it as a `SortableText`"
)]
pub trait Scalar {}

/// A [`Scalar`] whose stored form has the order of its values, or an optional one: `None` comes
/// first. Filters compare them with `<`, queries sort by them, and they have a minimum and maximum.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order in the index: its stored form sorts differently",
    label = "this type is not `Ordered`",
    note = "store it as a `SortableText`, an integer or an `f64`; if its stored form has the order of its values, implement `cdb_model::value::Ordered`"
)]
pub trait Ordered: Scalar {
    /// The type of a minimum or maximum.
    type Value: DeserializeOwned + Send + 'static;
    /// Whether a stored value may be null, which a minimum and a maximum ignore.
    #[doc(hidden)]
    const MAY_BE_NULL: bool = false;
}

macro_rules! scalars {
    ($($ty:ty),* $(,)?) => {$(
        impl Scalar for $ty {}
    )*};
}

macro_rules! ordered {
    ($($ty:ty),* $(,)?) => {$(
        impl Scalar for $ty {}

        impl Ordered for $ty {
            type Value = Self;
        }
    )*};
}

// Not `f32`: many stored numbers are read as one `f32`. The service stores 64 bits (concepts-limits), so
// another program stores `0.1_f32` as 0.10000000149011612, which does not equal the 0.1 that serde_json
// writes.
// Addresses are stored as text: `10.0.0.1` sorts before `9.0.0.1`.
scalars!(IpAddr, Ipv4Addr, Ipv6Addr);
ordered!(
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f64,
    bool,
    char,
    String,
    Box<str>,
    Cow<'static, str>,
    Timestamp,
    NonZeroU8,
    NonZeroU16,
    NonZeroU32,
    NonZeroU64,
    NonZeroI8,
    NonZeroI16,
    NonZeroI32,
    NonZeroI64,
);

// Digits: `10` sorts before `9`.
impl<T> Scalar for TextInteger<T> {}

impl<V: Scalar> Scalar for Option<V> {}

impl<V: Ordered> Ordered for Option<V> {
    type Value = V::Value;
    const MAY_BE_NULL: bool = true;
}
