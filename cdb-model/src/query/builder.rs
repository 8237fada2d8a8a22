//! Queries put together: where, which, in which order, how many, and what of each.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::filter::{Predicate, type_condition};
use super::order::OrderTerm;
use super::sql::{self, Projection, QueryParts};
use super::{Fetch, Filter, Order, QueriedIn, Queryable, RowForm, Scope, SortKey, Statement};
use crate::codec::decode_value;
use crate::codec_error::DecodeError;
use crate::container::Container;
use crate::document::Stored;
use crate::partition_key::PartitionKey;
use crate::path::Path;
use crate::shape::CompositeTarget;

/// A query for documents of `T`: a document type, or a container for all of its types.
///
/// ```
/// use cdb_model::Query;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let cheapest = Query::<Order>::in_partition("ada")
///     .filter(Order::TOTAL_CENTS.gt(0_u64))
///     .order_by(Order::TOTAL_CENTS.asc())
///     .top(10);
/// let everything = Query::<Shop>::in_partition("ada"); // all types of the container
/// let how_many = Query::<Order>::across_partitions().count();
/// let totals = Query::<Order>::across_partitions().values(Order::TOTAL_CENTS);
/// # drop((cheapest, everything, how_many, totals));
/// ```
#[derive(Debug)]
pub struct Query<T> {
    pub(super) parts: Parts,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Query<T> {
    fn clone(&self) -> Self {
        Self {
            parts: self.parts.clone(),
            marker: PhantomData,
        }
    }
}

/// A query without types.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) scope: Scope,
    pub(super) predicate: Predicate,
    pub(super) order: Vec<OrderTerm>,
    pub(super) top: Option<u32>,
}

impl<T: Queryable> Query<T> {
    fn new(scope: Scope) -> Self {
        Self {
            parts: Parts {
                scope,
                predicate: type_condition::<T>(),
                order: Vec::new(),
                top: None,
            },
            marker: PhantomData,
        }
    }

    /// Asks one logical partition: the cheapest query there is.
    pub fn in_partition(key: impl Into<PartitionKey>) -> Self {
        Self::new(Scope::Partition(key.into()))
    }

    /// Asks every physical partition. Each costs at least about 2.5 request units, however little it returns.
    pub fn across_partitions() -> Self {
        Self::new(Scope::AllPartitions)
    }

    /// Only documents that meet the condition, and those of earlier calls.
    #[must_use]
    pub fn filter(mut self, filter: Filter<T>) -> Self {
        self.parts.predicate = Filter::<T>::from_predicate(self.parts.predicate)
            .and(filter)
            .predicate;
        self
    }

    /// In this order; the last call counts.
    #[must_use]
    pub fn order_by(mut self, order: Order<T>) -> Self {
        self.parts.order = order.terms;
        self
    }

    /// In this order, if no other was asked for.
    #[must_use]
    pub fn or_order_by(self, order: Order<T>) -> Self {
        if self.parts.order.is_empty() {
            self.order_by(order)
        } else {
            self
        }
    }

    /// At most this many rows in all.
    #[must_use]
    pub fn top(mut self, rows: u32) -> Self {
        self.parts.top = Some(rows);
        self
    }

    /// How many documents there are, instead of the documents. Order and `top` do not matter to it.
    pub fn count(self) -> CountQuery<T> {
        CountQuery {
            query: self,
            projection: Projection::Count,
        }
    }

    /// The sum of a number over all documents, instead of the documents.
    pub fn sum<V, I, M>(self, path: Path<T, V, I, M>) -> CountQuery<T>
    where
        V: Summand,
    {
        CountQuery {
            query: self,
            projection: Projection::Sum(path.pointer().to_owned()),
        }
    }

    /// One path of each document, instead of the documents. Saves bytes, and hardly any request units.
    pub fn values<V, I, M>(self, path: Path<T, V, I, M>) -> ValueQuery<T, V> {
        ValueQuery {
            query: self,
            pointer: path.pointer(),
            marker: PhantomData,
        }
    }

    fn statement(&self, discriminator: &str, projection: &Projection, form: RowForm) -> Statement {
        let aggregates = matches!(form, RowForm::Count);
        let order = if aggregates { &[] } else { &*self.parts.order };
        let top = self.parts.top.filter(|_| !aggregates);
        let (sql, parameters) = sql::query(&QueryParts {
            projection,
            predicate: &self.parts.predicate,
            order,
            top,
            discriminator,
        });
        let keys = order.iter().map(|term| SortKey {
            pointer: match term.target {
                CompositeTarget::Path(pointer) => pointer.to_owned(),
                CompositeTarget::Discriminator => format!("/{discriminator}"),
            },
            direction: term.direction,
        });
        Statement {
            sql,
            parameters,
            scope: self.parts.scope.clone(),
            order: keys.collect(),
            top,
            form,
        }
    }
}

impl<C: Container, T: QueriedIn<C>> Fetch<C> for Query<T> {
    type Row = Stored<T>;

    fn statement(&self) -> Statement {
        self.statement(C::DISCRIMINATOR, &Projection::Document, RowForm::Document)
    }

    fn read_row(&self, json: &str) -> Result<Stored<T>, DecodeError> {
        T::read_stored(json)
    }
}

/// A number that [`Query::sum`] adds up: an unsigned integer, so that the sum fits the answer.
///
/// ```
/// use cdb_model::{CountQuery, Path, Query, Summand};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// fn total_of<V: Summand, I, M>(path: Path<Order, V, I, M>) -> CountQuery<Order> {
///     Query::in_partition("ada").sum(path)
/// }
/// let turnover = total_of(Order::TOTAL_CENTS); // `total_of(Order::REMARK)` does not compile
/// # drop(turnover);
/// ```
pub trait Summand {}

impl Summand for u8 {}
impl Summand for u16 {}
impl Summand for u32 {}
impl Summand for u64 {}

/// A query for a number: how many documents, or the sum of a path.
///
/// ```
/// use cdb_model::Query;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let orders = Query::<Order>::across_partitions().count();
/// let turnover = Query::<Order>::across_partitions().sum(Order::TOTAL_CENTS);
/// # drop((orders, turnover));
/// ```
#[derive(Clone, Debug)]
pub struct CountQuery<T> {
    query: Query<T>,
    projection: Projection,
}

impl<C: Container, T: QueriedIn<C>> Fetch<C> for CountQuery<T> {
    type Row = u64;

    fn statement(&self) -> Statement {
        self.query
            .statement(C::DISCRIMINATOR, &self.projection, RowForm::Count)
    }

    fn read_row(&self, json: &str) -> Result<u64, DecodeError> {
        // The service computes in doubles, so a whole number may come as `3.0`.
        let number: f64 = decode_value("count", json)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts and sums of unsigned integers below 2^53"
        )]
        Ok(number as u64)
    }
}

/// A query for one path of each document.
///
/// ```
/// use cdb_model::{Fetch, Query};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let totals = Query::<Order>::in_partition("ada").values(Order::TOTAL_CENTS);
/// let total: u64 = Fetch::<Shop>::read_row(&totals, "9900")?;
/// assert_eq!(total, 9_900);
/// # Ok::<(), cdb_model::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct ValueQuery<T, V> {
    query: Query<T>,
    pointer: &'static str,
    marker: PhantomData<fn() -> V>,
}

impl<C, T, V> Fetch<C> for ValueQuery<T, V>
where
    C: Container,
    T: QueriedIn<C>,
    V: DeserializeOwned + Send + 'static,
{
    type Row = V;

    fn statement(&self) -> Statement {
        let projection = Projection::Value(self.pointer.to_owned());
        self.query
            .statement(C::DISCRIMINATOR, &projection, RowForm::ValueWithKeys)
    }

    fn read_row(&self, json: &str) -> Result<V, DecodeError> {
        decode_value(self.pointer, json)
    }
}
