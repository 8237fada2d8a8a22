//! Aggregates: count, sum, minimum, maximum and average of documents or of groups of documents,
//! and distinct values.

use std::marker::PhantomData;

use derive_where::derive_where;
use serde::de::DeserializeOwned;

use crate::container::Container;
use crate::document::{DecodeError, Document, Path};
use crate::query::statement::{Fetch, RowForm, SingleRow, Statement};
use crate::query::{QueriedIn, Query, Queryable};
use crate::sql::{AggregateKind, AggregateTerm, Fragment, Projection, ValueError};
use crate::stored::decode_value;
use crate::value::{Ordered, Scalar};

/// An aggregate over documents of `T` with a value of type `R`, such as `Order::TOTAL_CENTS.sum()`.
#[derive(Debug)]
#[must_use = "`Query::aggregate` computes it"]
pub struct Aggregate<T, R> {
    term: AggregateTerm,
    marker: PhantomData<fn() -> (T, R)>,
}

impl<T, R> Aggregate<T, R> {
    fn new(term: AggregateTerm) -> Self {
        Self {
            term,
            marker: PhantomData,
        }
    }
}

impl<T> Aggregate<T, u64> {
    /// The number of documents.
    pub fn count() -> Self {
        Self::new(AggregateTerm {
            kind: AggregateKind::Count,
            argument: Fragment::new().text("1"),
        })
    }
}

/// A number that can be summed, or an optional one. `None` is ignored.
#[diagnostic::on_unimplemented(
    message = "the service cannot add values of `{Self}`",
    label = "this type is not stored as a number",
    note = "store an amount as an integer of its smallest unit, such as cents, or add the values in Rust"
)]
pub trait Summand {
    /// The type of a sum.
    type Sum: DeserializeOwned + Send + 'static;
    /// Whether a stored value may be null.
    #[doc(hidden)]
    const MAY_BE_NULL: bool = false;
}

macro_rules! summands {
    ($($ty:ty => $sum:ty;)*) => {$(
        impl Summand for $ty {
            type Sum = $sum;
        }
    )*};
}

summands! {
    u8 => u64; u16 => u64; u32 => u64; u64 => u64;
    i8 => i64; i16 => i64; i32 => i64; i64 => i64;
    f32 => f64; f64 => f64;
}

impl<V: Summand> Summand for Option<V> {
    type Sum = V::Sum;
    const MAY_BE_NULL: bool = true;
}

impl<D: Document, V, I, M> Path<D, V, I, M> {
    /// The sum of the values; 0 without documents. An integer sum beyond 64 bits fails the query.
    pub fn sum(self) -> Aggregate<D, V::Sum>
    where
        V: Summand,
    {
        self.aggregate(AggregateKind::Sum, V::MAY_BE_NULL)
    }

    /// The average of the values; `None` without values.
    pub fn avg(self) -> Aggregate<D, Option<f64>>
    where
        V: Summand,
    {
        self.aggregate(AggregateKind::Average, V::MAY_BE_NULL)
    }

    /// The smallest value; `None` without values. Strings are compared byte by byte.
    pub fn min(self) -> Aggregate<D, Option<V::Value>>
    where
        V: Ordered,
    {
        self.aggregate(AggregateKind::Min, V::MAY_BE_NULL)
    }

    /// The largest value; `None` without values. Strings are compared byte by byte.
    pub fn max(self) -> Aggregate<D, Option<V::Value>>
    where
        V: Ordered,
    {
        self.aggregate(AggregateKind::Max, V::MAY_BE_NULL)
    }

    fn aggregate<R>(self, kind: AggregateKind, may_be_null: bool) -> Aggregate<D, R> {
        let argument = argument(self.pointer(), may_be_null);
        Aggregate::new(AggregateTerm { kind, argument })
    }
}

/// Returns the argument of an aggregate, which ignores nulls.
pub(crate) fn argument(path: &'static str, may_be_null: bool) -> Fragment {
    let path = Fragment::new().path(path);
    if may_be_null {
        let is_null = Fragment::new().text("IS_NULL(").then(path.clone());
        is_null.text(") ? undefined : ").then(path)
    } else {
        path
    }
}

/// An [`Aggregate`], or a tuple of two to six.
pub trait Aggregates<T> {
    /// The value, or the tuple of values.
    type Row: DeserializeOwned + Send + 'static;

    /// Returns the aggregates as data.
    #[doc(hidden)]
    fn into_terms(self) -> Vec<AggregateTerm>;
}

/// A path to group by, or a tuple of two or three.
pub trait GroupKeys<T> {
    /// The value, or the tuple of values.
    type Key: DeserializeOwned + Send + 'static;

    /// Returns the paths as JSON pointers.
    #[doc(hidden)]
    fn into_pointers(self) -> Vec<&'static str>;
}

impl<T, R: DeserializeOwned + Send + 'static> Aggregates<T> for Aggregate<T, R> {
    type Row = R;

    fn into_terms(self) -> Vec<AggregateTerm> {
        vec![self.term]
    }
}

impl<T, V, I, M> GroupKeys<T> for Path<T, V, I, M>
where
    V: Scalar + DeserializeOwned + Send + 'static,
{
    type Key = V;

    fn into_pointers(self) -> Vec<&'static str> {
        vec![self.pointer()]
    }
}

macro_rules! tuples {
    ($method:ident of $trait:ident: $result:ty, $row:ident; $(($($name:ident $at:tt),*))*) => {$(
        impl<T, $($name: $trait<T>),*> $trait<T> for ($($name,)*) {
            type $row = ($($name::$row,)*);

            fn $method(self) -> Vec<$result> {
                [$(self.$at.$method()),*].concat()
            }
        }
    )*};
}

tuples! {
    into_terms of Aggregates: AggregateTerm, Row;
    (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}
tuples! {
    into_pointers of GroupKeys: &'static str, Key;
    (A 0, B 1) (A 0, B 1, C 2)
}

/// A query for aggregates of all its documents. It has one row, of type `R`.
#[derive_where(Clone, Debug)]
pub struct AggregateQuery<T, R> {
    query: Query<T>,
    keys: Vec<&'static str>,
    terms: Vec<AggregateTerm>,
    marker: PhantomData<fn() -> R>,
}

/// A query with one row of type `R` per group of documents.
#[derive(Clone, Debug)]
pub struct GroupQuery<T, R>(AggregateQuery<T, R>);

/// A query for documents in groups of equal keys. Its methods choose the aggregates of each group.
#[derive(Clone, Debug)]
#[must_use = "`count`, `sum` or `aggregate` makes a query of it"]
pub struct GroupedQuery<T, K> {
    query: Query<T>,
    keys: Vec<&'static str>,
    marker: PhantomData<fn() -> K>,
}

impl<T: Queryable> Query<T> {
    /// Returns one or several aggregates instead of the documents. Ignores order and `limit`.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_model::Query;
    /// use cdb_model::query::aggregate::{Aggregate, AggregateQuery};
    /// use shop::Order;
    ///
    /// fn totals(customer: &str) -> AggregateQuery<Order, (u64, Option<u64>)> {
    ///     Query::<Order>::in_partition(customer)
    ///         .aggregate((Aggregate::count(), Order::TOTAL_CENTS.max()))
    /// }
    /// ```
    pub fn aggregate<A: Aggregates<T>>(self, aggregates: A) -> AggregateQuery<T, A::Row> {
        aggregated(self, Vec::new(), aggregates.into_terms())
    }

    /// Returns the number of documents instead of the documents. Ignores order and `limit`.
    pub fn count(self) -> AggregateQuery<T, u64> {
        self.aggregate(Aggregate::count())
    }

    /// Groups the documents by one path or a tuple of paths. Rows are in the order of the keys. The
    /// client holds all groups in memory. Ignores order and `limit`.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_model::Query;
    /// use cdb_model::query::aggregate::GroupQuery;
    /// use shop::Order;
    ///
    /// /// The total of each customer.
    /// fn totals() -> GroupQuery<Order, (String, u64)> {
    ///     Query::<Order>::across_partitions().group_by(Order::CUSTOMER_ID).sum(Order::TOTAL_CENTS)
    /// }
    /// ```
    pub fn group_by<K: GroupKeys<T>>(self, keys: K) -> GroupedQuery<T, K::Key> {
        GroupedQuery {
            query: self,
            keys: keys.into_pointers(),
            marker: PhantomData,
        }
    }

    /// Returns the different values of a path instead of the documents, in order. A document that
    /// lacks the path counts as one with null. Ignores order and `limit`.
    pub fn distinct<K: GroupKeys<T>>(self, keys: K) -> GroupQuery<T, K::Key> {
        GroupQuery(aggregated(self, keys.into_pointers(), Vec::new()))
    }
}

impl<D: Document + Queryable> Query<D> {
    /// Returns the sum of a path over all documents instead of the documents. Ignores order and
    /// `limit`.
    pub fn sum<V: Summand, I, M>(self, path: Path<D, V, I, M>) -> AggregateQuery<D, V::Sum> {
        self.aggregate(path.sum())
    }

    /// Returns the average of a path instead of the documents. Ignores order and `limit`.
    pub fn avg<V: Summand, I, M>(self, path: Path<D, V, I, M>) -> AggregateQuery<D, Option<f64>> {
        self.aggregate(path.avg())
    }

    /// Returns the smallest value of a path instead of the documents. Ignores order and `limit`.
    pub fn min<V: Ordered, I, M>(
        self,
        path: Path<D, V, I, M>,
    ) -> AggregateQuery<D, Option<V::Value>> {
        self.aggregate(path.min())
    }

    /// Returns the largest value of a path instead of the documents. Ignores order and `limit`.
    pub fn max<V: Ordered, I, M>(
        self,
        path: Path<D, V, I, M>,
    ) -> AggregateQuery<D, Option<V::Value>> {
        self.aggregate(path.max())
    }
}

impl<T: Queryable, K: DeserializeOwned + Send + 'static> GroupedQuery<T, K> {
    /// Returns one or several aggregates of each group, as `(key, aggregates)`.
    pub fn aggregate<A: Aggregates<T>>(self, aggregates: A) -> GroupQuery<T, (K, A::Row)> {
        GroupQuery(aggregated(self.query, self.keys, aggregates.into_terms()))
    }

    /// Returns the number of documents of each group.
    pub fn count(self) -> GroupQuery<T, (K, u64)> {
        self.aggregate(Aggregate::count())
    }
}

impl<D: Document + Queryable, K: DeserializeOwned + Send + 'static> GroupedQuery<D, K> {
    /// Returns the sum of a path in each group.
    pub fn sum<V: Summand, I, M>(self, path: Path<D, V, I, M>) -> GroupQuery<D, (K, V::Sum)> {
        self.aggregate(path.sum())
    }
}

fn aggregated<T, R>(
    query: Query<T>,
    keys: Vec<&'static str>,
    terms: Vec<AggregateTerm>,
) -> AggregateQuery<T, R> {
    AggregateQuery {
        query,
        keys,
        terms,
        marker: PhantomData,
    }
}

impl<C, T, R> Fetch<C> for AggregateQuery<T, R>
where
    C: Container,
    T: QueriedIn<C>,
    R: DeserializeOwned + Send + 'static,
{
    type Row = R;

    fn statement(&self) -> Result<Statement, ValueError> {
        let projection = Projection::Aggregates {
            keys: self
                .keys
                .iter()
                .map(|key| Fragment::new().path(key))
                .collect(),
            terms: self.terms.clone(),
        };
        let form = RowForm::Aggregates {
            kinds: self.terms.iter().map(|term| term.kind).collect(),
            grouped: !self.keys.is_empty(),
        };
        self.query.statement(C::DISCRIMINATOR, &projection, form)
    }

    fn read_row(&self, json: &str) -> Result<R, DecodeError> {
        decode_value("aggregate", json)
    }
}

impl<C, T, R> Fetch<C> for GroupQuery<T, R>
where
    C: Container,
    T: QueriedIn<C>,
    R: DeserializeOwned + Send + 'static,
{
    type Row = R;

    fn statement(&self) -> Result<Statement, ValueError> {
        Fetch::<C>::statement(&self.0)
    }

    fn read_row(&self, json: &str) -> Result<R, DecodeError> {
        Fetch::<C>::read_row(&self.0, json)
    }
}

impl<T, R> SingleRow for AggregateQuery<T, R> {}
