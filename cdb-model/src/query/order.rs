//! Sorts: by one indexed path, or by a declared composite.

use std::marker::PhantomData;

use super::filter::Filterable;
use crate::document::Document;
use crate::path::Path;
use crate::shape::{CompositeShape, CompositeTarget, Direction};

/// A sort of documents of `D`.
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
    /// Sorts by this path, smallest value first.
    pub fn asc(self) -> Order<D>
    where
        I: Filterable<D>,
    {
        self.sorted(Direction::Ascending)
    }

    /// Sorts by this path, largest value first.
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

/// A composite index that document type `D` declares. A sort by several paths requires one: the
/// service needs an index with exactly these paths.
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

    fn sorted(self, turn: impl Fn(Direction) -> Direction) -> Order<D> {
        let terms = self.shape.paths.iter().map(|path| OrderTerm {
            target: path.path,
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
