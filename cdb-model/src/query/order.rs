//! Sorts: by one indexed path, or by a declared composite.

use std::marker::PhantomData;

use derive_where::derive_where;

use super::Filterable;
use crate::document::{Document, Path};
use crate::shape::{CompositeShape, CompositeTarget, Direction};
use crate::sql::OrderTerm;
use crate::value::Ordered;

/// A sort of documents of `D`.
#[derive(Clone, Debug)]
pub struct Order<D> {
    pub(crate) terms: Vec<OrderTerm>,
    marker: PhantomData<fn() -> D>,
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
    /// Sorts by this path, smallest value first.
    pub fn asc(self) -> Order<D>
    where
        I: Filterable<D>,
        V: Ordered,
    {
        self.sorted(Direction::Ascending)
    }

    /// Sorts by this path, largest value first.
    pub fn desc(self) -> Order<D>
    where
        I: Filterable<D>,
        V: Ordered,
    {
        self.sorted(Direction::Descending)
    }

    fn sorted(self, direction: Direction) -> Order<D> {
        Order::from_terms(vec![OrderTerm {
            target: CompositeTarget::Path(self.pointer()).into(),
            direction,
        }])
    }
}

impl<D: Document, V: Ordered, I: Filterable<D>, M> From<Path<D, V, I, M>> for Order<D> {
    /// Sorts by the path, smallest value first.
    fn from(path: Path<D, V, I, M>) -> Self {
        path.asc()
    }
}

/// A composite index that document type `D` declares. A sort by several paths requires one: the
/// service needs an index with exactly these paths.
#[derive_where(Clone, Copy, Debug)]
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

    /// Sorts in the reverse of the declared directions. The composite itself is the sort in the
    /// declared directions: `order_by(Order::NEWEST)`.
    pub fn reversed(self) -> Order<D> {
        self.sorted(Direction::reversed)
    }

    /// For `sql!`: sorts in the declared directions.
    #[doc(hidden)]
    pub fn asc(self) -> Order<D> {
        self.into()
    }

    /// For `sql!`: sorts in the reverse of the declared directions.
    #[doc(hidden)]
    pub fn desc(self) -> Order<D> {
        self.reversed()
    }

    fn sorted(self, turn: impl Fn(Direction) -> Direction) -> Order<D> {
        let terms = self.shape.paths.iter().map(|path| OrderTerm {
            target: path.path.into(),
            direction: turn(path.direction),
        });
        Order::from_terms(terms.collect())
    }
}

impl<D> From<Composite<D>> for Order<D> {
    /// Sorts in the declared directions.
    fn from(composite: Composite<D>) -> Self {
        composite.sorted(|direction| direction)
    }
}
