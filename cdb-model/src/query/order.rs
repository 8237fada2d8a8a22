//! Sorts: by one indexed path, or by a declared composite.

use std::marker::PhantomData;

use super::filter::Filterable;
use crate::document::Document;
use crate::path::Path;
use crate::shape::{CompositeShape, CompositeTarget, Direction};

/// A sort of documents of `D`.
///
/// ```
/// use cdb_model::{Order as Sort, Query};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let by_total: Sort<Order> = Order::TOTAL_CENTS.desc();
/// let query = Query::<Order>::in_partition("ada").order_by(by_total);
/// # drop(query);
/// ```
#[derive(Clone, Debug)]
pub struct Order<D> {
    pub(crate) terms: Vec<OrderTerm>,
    marker: PhantomData<fn() -> D>,
}

/// One path of a sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderTerm {
    pub(crate) target: CompositeTarget,
    pub(crate) direction: Direction,
}

impl<D> Order<D> {
    pub(crate) fn from_terms(terms: Vec<OrderTerm>) -> Self {
        Self {
            terms,
            marker: PhantomData,
        }
    }
}

impl<D: Document, V, I, M> Path<D, V, I, M> {
    /// Smallest first.
    pub fn asc(self) -> Order<D>
    where
        I: Filterable<D>,
    {
        self.sorted(Direction::Ascending)
    }

    /// Largest first.
    pub fn desc(self) -> Order<D>
    where
        I: Filterable<D>,
    {
        self.sorted(Direction::Descending)
    }

    fn sorted(self, direction: Direction) -> Order<D> {
        Order::from_terms(vec![OrderTerm {
            target: CompositeTarget::Path(self.pointer()),
            direction,
        }])
    }
}

/// A composite index that document type `D` declares. The only way to sort by several paths: the service serves such
/// a sort from an index with exactly these paths and from no other.
///
/// ```
/// use cdb_model::Query;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// // `#[document(composite(BY_TOTAL = r#type, total_cents))]` made the constant and the index.
/// let query = Query::<Order>::across_partitions().order_by(Order::BY_TOTAL.desc());
/// # drop(query);
/// ```
pub struct Composite<D> {
    shape: &'static CompositeShape,
    marker: PhantomData<fn() -> D>,
}

impl<D> Composite<D> {
    /// For generated code.
    #[doc(hidden)]
    pub const fn new(shape: &'static CompositeShape) -> Self {
        Self {
            shape,
            marker: PhantomData,
        }
    }

    /// In the declared directions.
    pub fn asc(self) -> Order<D> {
        self.sorted(|direction| direction)
    }

    /// Every path in the direction opposite to the declared one.
    pub fn desc(self) -> Order<D> {
        self.sorted(Direction::reversed)
    }

    fn sorted(self, turn: impl Fn(Direction) -> Direction) -> Order<D> {
        let terms = self.shape.paths.iter().map(|path| OrderTerm {
            target: path.path,
            direction: turn(path.direction),
        });
        Order::from_terms(terms.collect())
    }
}

impl<D> Clone for Composite<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Composite<D> {}

impl<D> std::fmt::Debug for Composite<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Composite")
            .field("shape", self.shape)
            .finish()
    }
}
