//! Conditions: typed for the caller, untyped data inside.

use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, Not};

use derive_where::derive_where;
use serde::Serialize;
use serde_json::Value;

use super::absent::{completed, negated};
use crate::container::{Container, MemberOf};
use crate::document::{Document, FullText, Indexed, Path};
use crate::sql::{Comparison, Predicate, ValueError};
use crate::value::{Ordered, Scalar, numbers};

/// A condition on documents of `T`: a document type or a container.
///
/// The methods of an indexed [`Path`] create filters; `&`, `|` and `!` combine them.
#[derive_where(Clone, Debug)]
pub struct Filter<T> {
    pub(crate) predicate: Predicate,
    marker: PhantomData<fn() -> T>,
}

impl<T> Filter<T> {
    pub(crate) fn from_predicate(predicate: Predicate) -> Self {
        Self {
            predicate,
            marker: PhantomData,
        }
    }

    /// Accepts every document of `T`.
    pub fn all() -> Self {
        Self::from_predicate(Predicate::All)
    }

    /// Accepts no document.
    pub fn none() -> Self {
        Self::from_predicate(Predicate::Never)
    }

    /// Accepts documents that meet both conditions.
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

    /// Accepts documents that meet at least one of the conditions.
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
    /// Returns the condition for a query of a container: the document is of type `D` and meets this
    /// condition.
    pub fn within<C: Container>(self) -> Filter<C>
    where
        D: MemberOf<C>,
    {
        let is_type = Filter::from_predicate(Predicate::IsType(D::SHAPE.discriminator));
        is_type.and(Filter::from_predicate(self.predicate))
    }
}

impl<C: Container> Filter<C> {
    /// Accepts every document of type `D`.
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
        Self::from_predicate(negated(self.predicate))
    }
}

/// A value for a path of type `V`, in a filter or a patch: a `V` or `&V`; a `&str` for `String`; a `V`
/// for `Option<V>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of a stored `{V}`",
    label = "use a value of type `{V}`"
)]
pub trait Operand<V>: Sized {
    /// Serializes the value.
    ///
    /// # Errors
    /// When its `Serialize` fails, or JSON cannot express it.
    #[doc(hidden)]
    fn into_json(self) -> serde_json::Result<Value>;
}

macro_rules! operands {
    ($($ty:ty => $path:ty $(, $generic:ident)?;)*) => {$(
        impl$(<$generic: Serialize>)? Operand<$path> for $ty {
            fn into_json(self) -> serde_json::Result<Value> {
                numbers::to_value(self)
            }
        }
    )*};
}

operands! {
    V => V, V;
    &V => V, V;
    V => Option<V>, V;
    &str => String;
    &str => Option<String>;
}

/// An `Option`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is always there",
    note = "only an `Option` can be `None`"
)]
pub trait Optional {}

impl<V> Optional for Option<V> {}

/// The marker of a path that an index serves.
#[diagnostic::on_unimplemented(
    message = "no index serves this path of `{D}`",
    label = "filters and sorts need an indexed path",
    note = "add `#[document(index)]` to the field, query the prefix of a key with `in_partition_prefix`, or read the documents and filter in code"
)]
pub trait Filterable<D> {}

impl<D> Filterable<D> for Indexed {}
impl<D, I: Filterable<D>> Filterable<D> for FullText<I> {}

impl<D: Document, V, I, M> Path<D, V, I, M> {
    /// Builds a filter with a serialized value.
    pub(super) fn filter<T>(
        self,
        value: serde_json::Result<T>,
        predicate: impl FnOnce(String, T) -> Predicate,
    ) -> Filter<D> {
        let path = self.pointer();
        Filter::from_predicate(match value {
            Ok(value) => {
                let path = path.trim_end_matches("/[]");
                completed(D::SHAPE, path, predicate(path.to_owned(), value))
            }
            Err(error) => Predicate::Invalid(ValueError::new(path, &error)),
        })
    }

    fn compare(self, comparison: Comparison, value: impl Operand<V>) -> Filter<D> {
        self.filter(value.into_json(), |path, value| {
            Predicate::Compare(path, comparison, value)
        })
    }

    /// The condition of a patch, which the service checks on one document.
    pub(crate) fn compare_without_index(
        self,
        comparison: Comparison,
        value: impl Operand<V>,
    ) -> Filter<D>
    where
        V: Scalar,
    {
        self.compare(comparison, value)
    }

    /// The condition that `by` can be added to a number without passing a bound from `limit`.
    pub(crate) fn leaves_room(self, limit: i64, by: i64) -> Filter<D> {
        let comparison = if by < 0 {
            Comparison::GreaterOrEqual
        } else {
            Comparison::LessOrEqual
        };
        self.filter(Ok(Value::from(limit)), |path, limit| {
            Predicate::Compare(path, comparison, limit)
        })
    }

    pub(crate) fn in_without_index<O: Operand<V>>(
        self,
        values: impl IntoIterator<Item = O>,
    ) -> Filter<D>
    where
        V: Scalar,
    {
        let values: serde_json::Result<Vec<Value>> =
            values.into_iter().map(Operand::into_json).collect();
        self.filter(values, |path, values| {
            if values.is_empty() {
                Predicate::Never
            } else {
                Predicate::In(path, values)
            }
        })
    }

    /// The value equals `value`. A document that lacks the path has the value that it is read as: `None`,
    /// or the field's `#[serde(default)]`. `None` is as [`is_none`](Self::is_none).
    pub fn eq(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Scalar,
    {
        self.compare(Comparison::Equal, value)
    }

    /// The value differs from `value`. A document that lacks the path has the value that it is read as:
    /// `None`, which differs from every other value, or the field's `#[serde(default)]`.
    pub fn ne(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Scalar,
    {
        self.compare(Comparison::NotEqual, value)
    }

    /// The value is less than `value`. `None` is neither less nor greater than a value.
    pub fn lt(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Ordered,
    {
        self.compare(Comparison::Less, value)
    }

    /// The value is less than or equal to `value`.
    pub fn le(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Ordered,
    {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// The value is greater than `value`.
    pub fn gt(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Ordered,
    {
        self.compare(Comparison::Greater, value)
    }

    /// The value is greater than or equal to `value`.
    pub fn ge(self, value: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Ordered,
    {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// The value is between `low` and `high`, inclusive.
    pub fn between(self, low: impl Operand<V>, high: impl Operand<V>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Ordered,
    {
        self.ge(low).and(self.le(high))
    }

    /// The value is one of `values`. Never holds for an empty list.
    pub fn is_in<O: Operand<V>>(self, values: impl IntoIterator<Item = O>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Scalar,
    {
        self.in_without_index(values)
    }

    /// The value is null. Does not hold for documents that lack the path; [`is_none`](Self::is_none) does.
    pub fn is_null(self) -> Filter<D>
    where
        I: Filterable<D>,
    {
        Filter::from_predicate(Predicate::IsNull(self.pointer().to_owned()))
    }

    /// The value is `None`: null, or missing because serde skips it. Holds for documents that lack the
    /// path.
    pub fn is_none(self) -> Filter<D>
    where
        I: Filterable<D>,
        V: Optional,
    {
        self.none_without_index()
    }

    /// The value is `Some`: neither null nor missing.
    pub fn is_some(self) -> Filter<D>
    where
        I: Filterable<D>,
        V: Optional,
    {
        self.some_without_index()
    }

    pub(crate) fn none_without_index(self) -> Filter<D> {
        self.filter(Ok(Value::Null), |path, none| {
            Predicate::Compare(path, Comparison::Equal, none)
        })
    }

    pub(crate) fn some_without_index(self) -> Filter<D> {
        self.filter(Ok(Value::Null), |path, none| {
            Predicate::Compare(path, Comparison::NotEqual, none)
        })
    }

    /// The path exists, with any value.
    pub fn is_defined(self) -> Filter<D>
    where
        I: Filterable<D>,
    {
        Filter::from_predicate(Predicate::IsDefined(self.pointer().to_owned()))
    }
}

/// Returns the alternatives of `None`: null, or a path that serde has skipped.
pub(super) fn is_none(path: &str) -> Vec<Predicate> {
    let is_defined = Predicate::IsDefined(path.to_owned());
    vec![
        Predicate::IsNull(path.to_owned()),
        Predicate::Not(Box::new(is_defined)),
    ]
}
