//! The builders of queries.

use std::marker::PhantomData;

use derive_where::derive_where;
use serde::de::DeserializeOwned;

use super::condition::{live_condition, type_condition};
use super::projection::Projection as FieldProjection;
use super::statement::{Fetch, RowForm, Scope, SortKey, Statement};
use super::{Filter, Order, QueriedIn, Queryable};
use crate::container::Container;
use crate::document::{DecodeError, Path, Stored};
use crate::sql::{
    self, Fragment, OrderTerm, Predicate, Projection, QueryParts, SortTarget, ValueError,
};
use crate::stored::decode_value;
use crate::value::PartitionKey;

/// A query for documents of `T`: a document type, or a container for all of its types.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::Query;
/// use cdb_model::query::ValueQuery;
/// use cdb_model::query::aggregate::AggregateQuery;
/// use shop::{Order, Shop};
///
/// fn cheapest(customer: &str) -> Query<Order> {
///     Query::in_partition(customer)
///         .filter(Order::TOTAL_CENTS.gt(0_u64))
///         .order_by(Order::TOTAL_CENTS.asc())
///         .limit(10)
/// }
///
/// fn all_types(customer: &str) -> Query<Shop> {
///     Query::in_partition(customer)
/// }
///
/// fn number_of_orders() -> AggregateQuery<Order, u64> {
///     Query::across_partitions().count()
/// }
///
/// fn totals() -> ValueQuery<Order, u64> {
///     Query::across_partitions().values(Order::TOTAL_CENTS)
/// }
/// ```
#[derive_where(Clone, Debug)]
pub struct Query<T> {
    pub(super) parts: Parts,
    marker: PhantomData<fn() -> T>,
}

/// An untyped query.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) scope: Scope,
    pub(super) predicate: Predicate,
    /// Excludes soft-deleted documents.
    pub(super) live: Predicate,
    pub(super) order: Vec<OrderTerm>,
    pub(super) top: Option<u32>,
    pub(super) joins: Option<Fragment>,
}

impl<T: Queryable> Query<T> {
    fn new(scope: Scope) -> Self {
        Self {
            parts: Parts {
                scope,
                predicate: type_condition::<T>(),
                live: live_condition::<T>(),
                order: Vec::new(),
                top: None,
                joins: None,
            },
            marker: PhantomData,
        }
    }

    /// Queries one logical partition, which is the cheapest query. The client refuses a key without all
    /// levels.
    pub fn in_partition(key: impl Into<PartitionKey>) -> Self {
        Self::new(Scope::Partition(key.into()))
    }

    /// Queries the logical partitions whose hierarchical key begins with these levels. They are usually
    /// on one physical partition. The levels need no index.
    ///
    /// ```
    /// use cdb_model::{Container, Document, Query};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Document, Serialize, Deserialize)]
    /// #[document(type = "invoice", id = "invoice:{number}")]
    /// struct Invoice {
    ///     number: u64,
    ///     #[document(partition_key(1))]
    ///     tenant: String,
    ///     #[document(partition_key(2))]
    ///     user: String,
    /// }
    ///
    /// #[derive(Container)]
    /// enum Ledger {
    ///     Invoice(Invoice),
    /// }
    ///
    /// fn of_tenant(tenant: &str) -> Query<Ledger> {
    ///     Query::in_partition_prefix(tenant)
    /// }
    ///
    /// fn of_user(tenant: &str, user: &str) -> Query<Ledger> {
    ///     Query::in_partition((tenant, user))
    /// }
    /// ```
    pub fn in_partition_prefix(levels: impl Into<PartitionKey>) -> Self {
        Self::new(Scope::Prefix(levels.into()))
    }

    /// Queries all physical partitions. Each costs at least about 2.5 request units, even without a
    /// result.
    pub fn across_partitions() -> Self {
        Self::new(Scope::AllPartitions)
    }

    /// Adds a condition. Several calls add up.
    #[must_use]
    pub fn filter(mut self, filter: Filter<T>) -> Self {
        self.parts.predicate = Filter::<T>::from_predicate(self.parts.predicate)
            .and(filter)
            .predicate;
        self
    }

    /// Includes documents that are marked as deleted by [`SoftDelete`](crate::operation::SoftDelete).
    #[must_use]
    pub fn with_deleted(mut self) -> Self {
        self.parts.live = Predicate::All;
        self
    }

    /// Returns the condition on documents of the scope.
    pub(super) fn condition(&self) -> Predicate {
        let [own, live] = [&self.parts.predicate, &self.parts.live]
            .map(|part| Filter::<T>::from_predicate(part.clone()));
        own.and(live).predicate
    }

    /// Returns the condition with the levels of a prefix: a request that reaches a whole physical
    /// partition then has no rows of other prefixes either (azure-sdk-for-rust#4680).
    pub(super) fn sent_condition(&self) -> Predicate {
        let condition = Filter::<T>::from_predicate(self.condition());
        let (Scope::Prefix(key), [shape, ..]) = (&self.parts.scope, T::SHAPES) else {
            return condition.predicate;
        };
        let levels = key.conditions(shape.partition_key);
        let levels = levels.map(Filter::from_predicate);
        levels
            .fold(Filter::all(), Filter::and)
            .and(condition)
            .predicate
    }

    /// Sets the order. The last call counts.
    #[must_use]
    pub fn order_by(mut self, order: impl Into<Order<T>>) -> Self {
        self.parts.order = order.into().terms;
        self
    }

    /// Sets the order, unless it is set.
    #[must_use]
    pub fn or_order_by(self, order: impl Into<Order<T>>) -> Self {
        if self.parts.order.is_empty() {
            self.order_by(order)
        } else {
            self
        }
    }

    /// Limits the number of rows, of all partitions together.
    #[must_use]
    pub fn limit(mut self, rows: u32) -> Self {
        self.parts.top = Some(rows);
        self
    }

    /// Returns one path of each document instead of the documents. The service still loads whole
    /// documents; the answer is smaller.
    pub fn values<V, I, M>(self, path: Path<T, V, I, M>) -> ValueQuery<T, V> {
        ValueQuery {
            query: self,
            projection: Projection::Value(Fragment::new().path(path.pointer())),
            what: path.pointer(),
            marker: PhantomData,
        }
    }

    /// Returns the fields of a projection of each document instead of the documents. The service
    /// still loads whole documents; the answer is smaller.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_model::{Projection, Query};
    /// use cdb_model::query::ValueQuery;
    /// use serde::Deserialize;
    /// use shop::Order;
    ///
    /// #[derive(Projection, Deserialize)]
    /// #[projection(of = Order)]
    /// struct OrderTotal {
    ///     number: u64,
    ///     total_cents: u64,
    /// }
    ///
    /// fn totals(customer: &str) -> ValueQuery<Order, OrderTotal> {
    ///     Query::in_partition(customer).order_by(Order::TOTAL_CENTS.desc()).select()
    /// }
    /// ```
    pub fn select<P: FieldProjection<Document = T>>(self) -> ValueQuery<T, P> {
        let fields = P::FIELDS.iter().map(|field| {
            let path = Fragment::new().path(field.pointer);
            (field.name.into(), path)
        });
        ValueQuery {
            query: self,
            projection: Projection::Value(Fragment::object(fields)),
            what: P::NAME,
            marker: PhantomData,
        }
    }

    fn sorts_by_a_computed_property(&self) -> bool {
        let mut computed = T::SHAPES.iter().flat_map(|shape| shape.computed);
        computed.any(|shape| {
            let mut order = self.parts.order.iter();
            order.any(|term| match &term.target {
                SortTarget::Path(pointer) => pointer.strip_prefix('/') == Some(shape.name),
                SortTarget::Discriminator => false,
            })
        })
    }

    pub(super) fn statement(
        &self,
        discriminator: &str,
        projection: &Projection,
        form: RowForm,
    ) -> Result<Statement, ValueError> {
        let aggregates = matches!(form, RowForm::Aggregates { .. });
        let order = if aggregates { &[] } else { &*self.parts.order };
        let top = self.parts.top.filter(|_| !aggregates);
        let (sql, parameters) = sql::query(&QueryParts {
            projection,
            joins: self.parts.joins.as_ref(),
            predicate: &self.sent_condition(),
            order,
            top,
            discriminator,
        })?;
        let keys = order.iter().map(|term| SortKey {
            pointer: term.target.pointer(discriminator).into_owned(),
            direction: term.direction,
        });
        Ok(Statement {
            sql,
            parameters,
            scope: self.parts.scope.clone(),
            order: keys.collect(),
            top,
            form,
        })
    }
}

impl<C: Container, T: QueriedIn<C>> Fetch<C> for Query<T> {
    type Row = Stored<T>;

    fn statement(&self) -> Result<Statement, ValueError> {
        if self.sorts_by_a_computed_property() {
            // A document does not contain the key by which the rows are merged.
            let document = Projection::Value(Fragment::new().path(""));
            return self.statement(C::DISCRIMINATOR, &document, RowForm::ValueWithKeys);
        }
        self.statement(C::DISCRIMINATOR, &Projection::Document, RowForm::Document)
    }

    fn read_row(&self, json: &str) -> Result<Stored<T>, DecodeError> {
        T::read_stored(json)
    }
}

/// A query for one path or one projection of each document.
#[derive(Debug)]
pub struct ValueQuery<T, V> {
    query: Query<T>,
    projection: Projection,
    /// The path or type, for an error.
    what: &'static str,
    marker: PhantomData<fn() -> V>,
}

impl<C, T, V> Fetch<C> for ValueQuery<T, V>
where
    C: Container,
    T: QueriedIn<C>,
    V: DeserializeOwned + Send + 'static,
{
    type Row = V;

    fn statement(&self) -> Result<Statement, ValueError> {
        self.query
            .statement(C::DISCRIMINATOR, &self.projection, RowForm::ValueWithKeys)
    }

    fn read_row(&self, json: &str) -> Result<V, DecodeError> {
        decode_value(self.what, json)
    }
}
