//! The statements of `sql!`: SQL whose paths, values and sort the compiler has checked.

use std::borrow::Cow;
use std::marker::PhantomData;

use derive_where::derive_where;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::aggregate::{Summand, argument};
use super::statement::{Fetch, RowForm, Scope, Statement};
use super::{
    Array, Explain, Explanation, Filter, Filterable, Operand, Order, QueriedIn, Query, Queryable,
    TextField,
};
use crate::container::{Container, MemberOf};
use crate::document::{DecodeError, Document, Path, Stored};
use crate::policy::IndexingPolicy;
use crate::sql::{
    AggregateKind, AggregateTerm, Fragment, IndexUse, Predicate, Projection, ValueError,
};
use crate::stored::decode_value;
use crate::value::{Ordered, PartitionKey, Scalar, numbers};

/// A statement of [`sql!`](macro@crate::sql) over documents of `T` with rows of type `Row`. It reads all
/// partitions unless a method restricts it.
#[derive_where(Clone, Debug)]
pub struct Sql<T, Row> {
    query: Query<T>,
    select: Select,
    marker: PhantomData<fn() -> Row>,
}

/// The rows of `SELECT *`: `Stored` documents.
#[derive(Debug)]
pub enum Documents {}

#[derive(Clone, Debug)]
enum Select {
    Documents,
    /// A value of each document.
    Rows(Fragment),
    /// Values that the client merges.
    Groups {
        columns: Vec<Column>,
        keys: Vec<Fragment>,
        terms: Vec<AggregateTerm>,
    },
}

/// A column of merged rows.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Column {
    /// `None` for the column of `SELECT VALUE`.
    name: Option<Cow<'static, str>>,
    source: ColumnSource,
}

#[derive(Clone, Debug)]
enum ColumnSource {
    Key(usize),
    Aggregate(AggregateTerm),
}

impl Column {
    /// A column with the key of this number.
    pub fn key(name: Option<&'static str>, number: usize) -> Self {
        Self {
            name: name.map(Cow::Borrowed),
            source: ColumnSource::Key(number),
        }
    }

    /// A column with an aggregate.
    pub fn aggregate(name: Option<&'static str>, kind: AggregateKind, argument: Fragment) -> Self {
        Self {
            name: name.map(Cow::Borrowed),
            source: ColumnSource::Aggregate(AggregateTerm { kind, argument }),
        }
    }
}

/// For `sql!`.
#[doc(hidden)]
impl<T: Queryable> Sql<T, Documents> {
    /// Selects whole documents.
    pub fn documents() -> Self {
        Self::new(Select::Documents)
    }
}

/// For `sql!`.
#[doc(hidden)]
impl<T: Queryable, Row> Sql<T, Row> {
    fn new(select: Select) -> Self {
        Self {
            query: Query::across_partitions(),
            select,
            marker: PhantomData,
        }
    }

    /// Selects one value of each document.
    pub fn value(value: Fragment) -> Self {
        Self::new(Select::Rows(value))
    }

    /// Selects columns of each document.
    pub fn columns(columns: Vec<(&'static str, Fragment)>) -> Self {
        let columns = columns.into_iter();
        let columns = columns.map(|(name, value)| (Cow::Borrowed(name), value));
        Self::value(Fragment::object(columns))
    }

    /// Selects columns of each group of documents.
    pub fn groups(columns: Vec<Column>, keys: Vec<Fragment>) -> Self {
        let terms = columns.iter().filter_map(|column| match &column.source {
            ColumnSource::Aggregate(term) => Some(term.clone()),
            ColumnSource::Key(_) => None,
        });
        Self::new(Select::Groups {
            terms: terms.collect(),
            columns,
            keys,
        })
    }

    /// Sets what follows `FROM c`.
    #[must_use]
    pub fn joins(mut self, joins: Fragment) -> Self {
        self.query.parts.joins = Some(joins);
        self
    }

    /// Adds a condition.
    #[must_use]
    pub fn condition(mut self, condition: Fragment, used: IndexUse) -> Self {
        let condition = Filter::from_predicate(Predicate::Sql(condition, used));
        self.query = self.query.filter(condition);
        self
    }

    /// Sets the order.
    #[must_use]
    pub fn order<How, D>(mut self, order: Order<D>) -> Self
    where
        Order<D>: NamedIn<T, How>,
    {
        self.query.parts.order = order.terms;
        self
    }

    /// Limits the rows.
    #[must_use]
    pub fn top(mut self, rows: u32) -> Self {
        self.query = self.query.limit(rows);
        self
    }
}

impl<T: Queryable, Row> Sql<T, Row> {
    /// Reads one logical partition, which is the cheapest query.
    #[must_use]
    pub fn in_partition(mut self, key: impl Into<PartitionKey>) -> Self {
        self.query.parts.scope = Scope::Partition(key.into());
        self
    }

    /// Reads the logical partitions whose hierarchical key begins with these levels.
    #[must_use]
    pub fn in_partition_prefix(mut self, levels: impl Into<PartitionKey>) -> Self {
        self.query.parts.scope = Scope::Prefix(levels.into());
        self
    }

    /// Includes documents that are marked as deleted by [`SoftDelete`](crate::operation::SoftDelete).
    #[must_use]
    pub fn with_deleted(mut self) -> Self {
        self.query = self.query.with_deleted();
        self
    }
}

/// A condition with `OR`, `NOT` or `!=` counts as checked per document.
impl<C, T, Row> Explain<C> for Sql<T, Row>
where
    C: Container,
    T: QueriedIn<C>,
    Row: DeserializeOwned + Send + 'static,
{
    fn explain(&self, policy: &IndexingPolicy) -> Explanation {
        Explain::<C>::explain(&self.query, policy)
    }
}

impl<C: Container, T: QueriedIn<C>> Explain<C> for Sql<T, Documents> {
    fn explain(&self, policy: &IndexingPolicy) -> Explanation {
        Explain::<C>::explain(&self.query, policy)
    }
}

impl<C: Container, T: QueriedIn<C>> Fetch<C> for Sql<T, Documents> {
    type Row = Stored<T>;

    fn statement(&self) -> Result<Statement, ValueError> {
        Fetch::<C>::statement(&self.query)
    }

    fn read_row(&self, json: &str) -> Result<Stored<T>, DecodeError> {
        Fetch::<C>::read_row(&self.query, json)
    }
}

impl<C, T, Row> Fetch<C> for Sql<T, Row>
where
    C: Container,
    T: QueriedIn<C>,
    Row: DeserializeOwned + Send + 'static,
{
    type Row = Row;

    fn statement(&self) -> Result<Statement, ValueError> {
        let (projection, form) = match &self.select {
            Select::Documents => (Projection::Document, RowForm::Document),
            Select::Rows(value) => (Projection::Value(value.clone()), RowForm::ValueWithKeys),
            Select::Groups { keys, terms, .. } => (
                Projection::Aggregates {
                    keys: keys.clone(),
                    terms: terms.clone(),
                },
                RowForm::Aggregates {
                    kinds: terms.iter().map(|term| term.kind).collect(),
                    grouped: !keys.is_empty(),
                },
            ),
        };
        self.query.statement(C::DISCRIMINATOR, &projection, form)
    }

    fn read_row(&self, json: &str) -> Result<Row, DecodeError> {
        const WHAT: &str = "a row of sql!";
        match &self.select {
            Select::Documents | Select::Rows(_) => decode_value(WHAT, json),
            Select::Groups {
                columns,
                keys,
                terms,
            } => {
                let row = columns_of(columns, keys.len(), terms.len(), decode_value(WHAT, json)?);
                decode_value(WHAT, &row.to_string())
            }
        }
    }
}

/// Returns a merged row as an object. `merged` is a row of [`Groups::into_rows`](super::aggregate::Groups::into_rows).
fn columns_of(columns: &[Column], keys: usize, terms: usize, merged: Value) -> Value {
    let several = |value: Value, count| match value {
        Value::Array(values) if count != 1 => values,
        single => vec![single],
    };
    let (keys, terms) = match (keys, terms, merged) {
        (0, _, merged) => (Vec::new(), several(merged, terms)),
        (_, 0, merged) => (several(merged, keys), Vec::new()),
        (_, _, Value::Array(mut both)) if both.len() == 2 => {
            let values = both.pop().unwrap_or_default();
            (several(both.remove(0), keys), several(values, terms))
        }
        _ => (Vec::new(), Vec::new()),
    };
    let mut terms = terms.into_iter();
    let mut row = Map::new();
    for column in columns {
        let value = match column.source {
            ColumnSource::Key(number) => keys.get(number).cloned(),
            ColumnSource::Aggregate(_) => terms.next(),
        };
        let value = value.unwrap_or_default();
        match &column.name {
            Some(name) => row.insert(name.to_string(), value),
            None => return value,
        };
    }
    Value::Object(row)
}

/// A path or sort of a document type that a statement reads. `How` tells the implementations apart.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the statement reads `{T}`, which has no such path",
    label = "a path of another document type",
    note = "name the type of the path, or a container with this type, after `FROM`"
)]
pub trait NamedIn<T, How> {}

/// The statement reads one document type.
#[doc(hidden)]
#[derive(Debug)]
pub enum Own {}

/// The statement reads a container.
#[doc(hidden)]
#[derive(Debug)]
pub enum Member {}

impl<D: Document, V, I, M> NamedIn<D, Own> for Path<D, V, I, M> {}
impl<C: Container, D: MemberOf<C>, V, I, M> NamedIn<C, Member> for Path<D, V, I, M> {}
impl<D: Document> NamedIn<D, Own> for Order<D> {}
impl<C: Container, D: MemberOf<C>> NamedIn<C, Member> for Order<D> {}

/// Returns the pointer of a path of `T`.
#[doc(hidden)]
pub fn pointer_of<T, How, D, V, I, M>(path: Path<D, V, I, M>) -> &'static str
where
    Path<D, V, I, M>: NamedIn<T, How>,
{
    path.pointer()
}

/// Returns the argument of a sum or average.
#[doc(hidden)]
pub fn summed<T, How, D, V: Summand, I, M>(path: Path<D, V, I, M>) -> Fragment
where
    Path<D, V, I, M>: NamedIn<T, How>,
{
    argument(path.pointer(), V::MAY_BE_NULL)
}

/// Returns the argument of a minimum or maximum.
#[doc(hidden)]
pub fn ordered_argument<T, How, D, V: Ordered, I, M>(path: Path<D, V, I, M>) -> Fragment
where
    Path<D, V, I, M>: NamedIn<T, How>,
{
    argument(path.pointer(), V::MAY_BE_NULL)
}

/// Returns the name of the column of a path.
#[doc(hidden)]
pub fn column_of<D, V, I, M>(path: Path<D, V, I, M>) -> &'static str {
    let pointer = path.pointer().trim_end_matches("/[]");
    pointer.rsplit('/').next().unwrap_or(pointer)
}

/// Returns a path that conditions may name.
#[doc(hidden)]
pub fn filtered<D, V, I: Filterable<D>, M>(path: Path<D, V, I, M>) -> Path<D, V, I, M> {
    path
}

/// Returns a value that is compared with a path for equality.
#[doc(hidden)]
pub fn equal<D, V: Scalar, I, M>(
    _: Path<D, V, I, M>,
    value: impl Operand<V>,
) -> serde_json::Result<Value> {
    value.into_json()
}

/// Returns a value that is compared with a path by order.
#[doc(hidden)]
pub fn ordered<D, V: Ordered, I, M>(
    _: Path<D, V, I, M>,
    value: impl Operand<V>,
) -> serde_json::Result<Value> {
    value.into_json()
}

/// Returns a value that is searched in an array.
#[doc(hidden)]
pub fn element<D, V: Array<Element: Scalar>, I, M>(
    _: Path<D, V, I, M>,
    value: impl Operand<V::Element>,
) -> serde_json::Result<Value> {
    value.into_json()
}

/// Returns a text that is searched in a string.
#[doc(hidden)]
pub fn matched<D, V: Scalar + TextField, I, M>(
    _: Path<D, V, I, M>,
    value: impl Operand<V>,
) -> serde_json::Result<Value> {
    value.into_json()
}

/// Returns a value that no path determines the type of.
#[doc(hidden)]
pub fn untyped(value: impl Serialize) -> serde_json::Result<Value> {
    numbers::to_value(value)
}
