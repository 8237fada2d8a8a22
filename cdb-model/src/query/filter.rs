//! Conditions, typed at the edge and plain data inside.

use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, Not};

use serde::Serialize;
use serde_json::Value;

use super::Queryable;
use crate::container::{Container, MemberOf};
use crate::document::Document;
use crate::path::{Indexed, Path};

/// A condition on documents of `T`, which is a document type or a container.
///
/// ```
/// use cdb_model::Filter;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let cheap = Order::TOTAL_CENTS.lt(1_000_u64);
/// let dear = Order::TOTAL_CENTS.ge(100_000_u64);
/// let unusual: Filter<Order> = cheap | dear;
/// let in_the_shop: Filter<Shop> = unusual.within(); // for queries of all types
/// # drop(in_the_shop);
/// ```
#[derive(Debug)]
pub struct Filter<T> {
    pub(crate) predicate: Predicate,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Filter<T> {
    fn clone(&self) -> Self {
        Self::from_predicate(self.predicate.clone())
    }
}

/// A condition without types. Paths are stored paths, values are JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Predicate {
    /// Always true.
    All,
    /// Never true.
    Never,
    /// The document is of this type.
    IsType(&'static str),
    /// `path op value`.
    Compare(String, Comparison, Value),
    /// `path IN (values)`.
    In(String, Vec<Value>),
    /// The path holds null.
    IsNull(String),
    /// The path is there.
    IsDefined(String),
    /// The path holds a string that starts so.
    StartsWith(String, Value),
    /// The path holds an array with this element.
    ArrayContains(String, Value),
    /// Both.
    And(Vec<Predicate>),
    /// At least one.
    Or(Vec<Predicate>),
    /// Not.
    Not(Box<Predicate>),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl<T> Filter<T> {
    pub(crate) fn from_predicate(predicate: Predicate) -> Self {
        Self {
            predicate,
            marker: PhantomData,
        }
    }

    /// Every document of `T`.
    pub fn all() -> Self {
        Self::from_predicate(Predicate::All)
    }

    /// No document.
    pub fn none() -> Self {
        Self::from_predicate(Predicate::Never)
    }

    /// Both conditions.
    pub fn and(self, other: Self) -> Self {
        let mut parts = Vec::new();
        for predicate in [self.predicate, other.predicate] {
            match predicate {
                Predicate::All => {}
                Predicate::And(inner) => parts.extend(inner),
                other => parts.push(other),
            }
        }
        Self::from_predicate(match parts.len() {
            0 => Predicate::All,
            1 => parts.remove(0),
            _ => Predicate::And(parts),
        })
    }

    /// At least one of the conditions.
    pub fn or(self, other: Self) -> Self {
        let mut parts = Vec::new();
        for predicate in [self.predicate, other.predicate] {
            match predicate {
                Predicate::Never => {}
                Predicate::Or(inner) => parts.extend(inner),
                other => parts.push(other),
            }
        }
        Self::from_predicate(match parts.len() {
            0 => Predicate::Never,
            1 => parts.remove(0),
            _ => Predicate::Or(parts),
        })
    }
}

impl<D: Document> Filter<D> {
    /// The same condition on the documents of a container: of type `D`, and meeting it.
    pub fn within<C: Container>(self) -> Filter<C>
    where
        D: MemberOf<C>,
    {
        let is_type = Filter::from_predicate(Predicate::IsType(D::SHAPE.discriminator));
        is_type.and(Filter::from_predicate(self.predicate))
    }
}

impl<C: Container> Filter<C> {
    /// Every document of type `D`.
    pub fn of_type<D: MemberOf<C>>() -> Self {
        Self::from_predicate(Predicate::IsType(D::SHAPE.discriminator))
    }
}

impl<T> BitAnd for Filter<T> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.and(other)
    }
}

impl<T> BitOr for Filter<T> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl<T> Not for Filter<T> {
    type Output = Self;

    fn not(self) -> Self {
        Self::from_predicate(match self.predicate {
            Predicate::Not(inner) => *inner,
            other => Predicate::Not(Box::new(other)),
        })
    }
}

/// A value that a path of type `V` can be compared with.
///
/// ```
/// use cdb_model::{Fetch, Filter, Operand, Query};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop, order};
///
/// fn costing(total: impl Operand<u64>) -> Filter<Order> {
///     Order::TOTAL_CENTS.eq(total)
/// }
/// // A value, or a reference to one; for a `String` also a `&str`, for an `Option<V>` also a `V`.
/// let [owned, borrowed] = [costing(9_900_u64), costing(&order(7).total_cents)]
///     .map(|filter| Fetch::<Shop>::statement(&Query::in_partition("ada").filter(filter)));
/// assert_eq!(owned, borrowed);
/// ```
pub trait Operand<V>: Sized {
    /// Its JSON form.
    ///
    /// # Errors
    /// When it is not written as a JSON scalar.
    #[doc(hidden)]
    fn into_json(self) -> Value;
}

/// A value that cannot be written as JSON compares like nothing at all: as a value that no document holds.
fn json<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_else(|_| Value::Array(Vec::new()))
}

impl<V: Serialize> Operand<V> for V {
    fn into_json(self) -> Value {
        json(&self)
    }
}

impl<V: Serialize> Operand<V> for &V {
    fn into_json(self) -> Value {
        json(self)
    }
}

impl<V: Serialize> Operand<Option<V>> for V {
    fn into_json(self) -> Value {
        json(&self)
    }
}

impl Operand<String> for &str {
    fn into_json(self) -> Value {
        json(self)
    }
}

impl Operand<Option<String>> for &str {
    fn into_json(self) -> Value {
        json(self)
    }
}

/// An index serves conditions on a path that is marked like this.
///
/// ```
/// use cdb_model::{Document, Fetch, Filterable, Path, Query, Queryable};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// /// The ten largest by any path that an index serves.
/// fn largest<D: Document + Queryable, V, I: Filterable<D>, M>(path: Path<D, V, I, M>) -> Query<D> {
///     Query::across_partitions().order_by(path.desc()).top(10)
/// }
/// let query = largest(Order::TOTAL_CENTS); // `largest(Order::REMARK)` does not compile
/// assert!(Fetch::<Shop>::statement(&query).sql.ends_with("DESC"));
/// ```
#[diagnostic::on_unimplemented(
    message = "no index serves this path of `{D}`",
    label = "filters and sorts need an indexed path",
    note = "add `#[document(index)]` to the field, or read the documents and filter in code"
)]
pub trait Filterable<D> {}

impl<D> Filterable<D> for Indexed {}

/// A path of strings.
///
/// ```
/// use cdb_model::{Document, Filter, Filterable, Path, Text};
///
/// /// What a search box asks while somebody types.
/// fn typed<D, V, I, M>(path: Path<D, V, I, M>, beginning: &str) -> Filter<D>
/// where
///     D: Document,
///     V: Text, // `String` and `Option<String>`
///     I: Filterable<D>,
/// {
///     if beginning.is_empty() { Filter::all() } else { path.starts_with(beginning) }
/// }
/// # #[derive(Document, serde::Serialize, serde::Deserialize)]
/// # #[document(type = "customer", id = "customer:{number}")]
/// # struct Customer { #[document(partition_key)] shop: String, number: u64, #[document(index)] name: String }
/// let found = typed(Customer::NAME, "Ad"); // `typed(Customer::NUMBER, "7")` does not compile
/// # drop(found);
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not a string")]
pub trait Text {}

impl Text for String {}
impl Text for Option<String> {}

impl<D: Document, V, I, M> Path<D, V, I, M> {
    fn compare(self, comparison: Comparison, value: impl Operand<V>) -> Filter<D> {
        let path = self.pointer().to_owned();
        Filter::from_predicate(Predicate::Compare(path, comparison, value.into_json()))
    }

    /// Holds exactly this value.
    pub fn eq(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        self.compare(Comparison::Equal, value)
    }

    /// Holds another value. Not true of documents that lack the path.
    pub fn ne(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        self.compare(Comparison::NotEqual, value)
    }

    /// Holds less.
    pub fn lt(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        self.compare(Comparison::Less, value)
    }

    /// Holds this value or less.
    pub fn le(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Holds more.
    pub fn gt(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        self.compare(Comparison::Greater, value)
    }

    /// Holds this value or more.
    pub fn ge(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// Holds a value from `low` to `high`, both included.
    pub fn between(self, low: impl Operand<V>, high: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        self.ge(low).and(self.le(high))
    }

    /// Holds one of these values; never true for none at all.
    pub fn is_in<O: Operand<V>>(self, values: impl IntoIterator<Item = O>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        let values: Vec<Value> = values.into_iter().map(Operand::into_json).collect();
        Filter::from_predicate(if values.is_empty() {
            Predicate::Never
        } else {
            Predicate::In(self.pointer().to_owned(), values)
        })
    }

    /// Holds null. Not true of documents that lack the path.
    pub fn is_null(self) -> Filter<D>
    where
        I: Filterable<D>,
    {
        Filter::from_predicate(Predicate::IsNull(self.pointer().to_owned()))
    }

    /// Is there, with whatever value.
    pub fn is_defined(self) -> Filter<D>
    where
        I: Filterable<D>,
    {
        Filter::from_predicate(Predicate::IsDefined(self.pointer().to_owned()))
    }

    /// Holds a string that starts like this.
    pub fn starts_with(self, prefix: &str) -> Filter<D>
    where
        I: Filterable<D>,
        V: Text,
    {
        let path = self.pointer().to_owned();
        Filter::from_predicate(Predicate::StartsWith(path, json(prefix)))
    }
}

impl<D: Document, V, I, M> Path<D, Vec<V>, I, M> {
    /// Holds an array with this element.
    pub fn contains(self, element: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
    {
        let path = self.pointer().trim_end_matches("/[]").to_owned();
        Filter::from_predicate(Predicate::ArrayContains(path, element.into_json()))
    }
}

/// The condition that a row is a `T`, where the query does not ask for it anyway.
pub(crate) fn type_condition<T: Queryable>() -> Predicate {
    match (T::SINGLE_TYPE, T::SHAPES) {
        (true, [shape]) => Predicate::IsType(shape.discriminator),
        _ => Predicate::All,
    }
}
