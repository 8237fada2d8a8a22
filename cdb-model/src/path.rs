//! Typed paths: which document, which value, indexed or not, patchable or not, all in the type.
//!
//! A filter or sort on a path that no index serves, and a patch of a key, do not compile.

use std::fmt;
use std::marker::PhantomData;

/// Marker: the indexing policy includes this path.
///
/// ```
/// use cdb_model::{Indexed, Order as Sort, Path};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// /// The first ten by whatever the caller likes, as long as an index serves it.
/// fn sorted<V, M>(path: Path<Order, V, Indexed, M>) -> Sort<Order> {
///     path.asc()
/// }
/// let by_total = sorted(Order::TOTAL_CENTS); // `sorted(Order::REMARK)` does not compile
/// # drop(by_total);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Indexed {}
/// Marker: no index serves this path.
///
/// ```
/// use cdb_model::{Fixed, Path, Query, Unindexed};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// // It can be read and written; what it cannot do is filter or sort.
/// let number: Path<Order, u64, Unindexed, Fixed> = Order::NUMBER;
/// let numbers = Query::<Order>::in_partition("ada").values(number);
/// # drop(numbers);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Unindexed {}
/// Marker: a patch may change this path.
///
/// ```
/// use cdb_model::{Patch, Patchable, Path};
/// use serde::Serialize;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// /// Empties a field.
/// fn emptied<V: Serialize, I>(path: Path<Order, Option<V>, I, Patchable>) -> Patch<Order> {
///     Patch::new().set(path, None)
/// }
/// let patch = emptied(Order::REMARK);
/// assert!(patch.is_repeatable());
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Patchable {}
/// Marker: part of the id or of the partition key, so it never changes.
///
/// ```
/// use cdb_model::{Fixed, Path, Unindexed};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// // In the id: another number is another document. `Patch::set` takes no such path.
/// let number: Path<Order, u64, Unindexed, Fixed> = Order::NUMBER;
/// assert_eq!(number.pointer(), "/number");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Fixed {}

/// A stored path of document type `D` that holds a `V`.
///
/// `I` is [`Indexed`] or [`Unindexed`], `M` is [`Patchable`] or [`Fixed`].
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
/// assert_eq!(Order::TOTAL_CENTS.pointer(), "/totalCents");
/// let cheap = Order::TOTAL_CENTS.lt(1_000_u64); // exists on indexed paths alone
/// # drop(cheap);
/// ```
pub struct Path<D, V, I, M> {
    pointer: &'static str,
    marker: Marker<D, V, I, M>,
}

/// What the type says and the value does not hold.
type Marker<D, V, I, M> = PhantomData<fn() -> (D, V, I, M)>;

impl<D, V, I, M> Path<D, V, I, M> {
    /// For generated code: `pointer` is the stored path, `/address/city`.
    #[doc(hidden)]
    pub const fn new(pointer: &'static str) -> Self {
        Self {
            pointer,
            marker: PhantomData,
        }
    }

    /// The stored path as a JSON pointer.
    pub const fn pointer(self) -> &'static str {
        self.pointer
    }
}

impl<D, V, I, M> Clone for Path<D, V, I, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D, V, I, M> Copy for Path<D, V, I, M> {}

impl<D, V, I, M> fmt::Debug for Path<D, V, I, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pointer)
    }
}
