//! Typed paths: the type of a path contains its document, its value, its index, and whether it is
//! patchable.
//!
//! A filter or sort by an unindexed path does not compile, and neither does a patch of a key.

use std::fmt;
use std::marker::PhantomData;

use derive_where::derive_where;

/// Marker: the indexing policy includes this path.
#[derive(Clone, Copy, Debug)]
pub enum Indexed {}

/// Marker: no index serves this path.
#[derive(Clone, Copy, Debug)]
pub enum Unindexed {}

/// Marker: the path has vectors, which are searched by distance.
#[derive(Clone, Copy, Debug)]
pub enum Embedding {}

/// Marker: a full-text index serves this path; `I` is [`Indexed`] if the indexing policy includes
/// it too.
#[derive(Clone, Copy, Debug)]
pub struct FullText<I>(PhantomData<fn() -> I>);

/// Marker: a patch may change this path.
#[derive(Clone, Copy, Debug)]
pub enum Patchable {}

/// Marker: the path is part of the id or of the partition key, so it never changes.
#[derive(Clone, Copy, Debug)]
pub enum Fixed {}

/// Marker: the service computes the value, which is not stored.
#[derive(Clone, Copy, Debug)]
pub enum Computed {}

/// A stored path of document type `D` with a value of type `V`, such as `Order::TOTAL_CENTS`.
///
/// `I` is [`Indexed`], [`Unindexed`], [`Embedding`] or [`FullText`]; `M` is [`Patchable`],
/// [`Fixed`] or [`Computed`].
#[derive_where(Clone, Copy)]
pub struct Path<D, V, I, M> {
    pointer: &'static str,
    marker: Marker<D, V, I, M>,
}

/// The types of a path. A path has no values of them.
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

    /// Returns the stored path as a JSON pointer.
    pub const fn pointer(self) -> &'static str {
        self.pointer
    }
}

impl<D, V, I, M> fmt::Debug for Path<D, V, I, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pointer)
    }
}
