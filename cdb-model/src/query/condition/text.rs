//! Conditions on strings and arrays.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::filter::{Filter, Filterable, Operand};
use crate::document::{Document, Path};
use crate::sql::{Predicate, TextMatch};
use crate::value::Scalar;

/// A string or an optional string.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a string")]
pub trait TextField {}

impl TextField for String {}
impl TextField for Option<String> {}

/// A collection that is stored as an array, or an optional one.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an array")]
pub trait Array {
    /// The type of its elements.
    type Element;
}

/// A string or an array, in which [`Path::contains`] searches for an `O`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot contain a `{O}`",
    note = "`contains` searches for text in a string, or for an element in an array"
)]
pub trait Searched<O>: Sized {
    /// Builds the filter.
    #[doc(hidden)]
    fn contains<D: Document, I, M>(path: Path<D, Self, I, M>, searched: O) -> Filter<D>;
}

macro_rules! arrays {
    ($($array:ty $(, $size:ident)?;)*) => {$(
        impl<V $(, const $size: usize)?> Array for $array {
            type Element = V;
        }

        impl<V: Scalar, O: Operand<V> $(, const $size: usize)?> Searched<O> for $array {
            fn contains<D: Document, I, M>(path: Path<D, Self, I, M>, searched: O) -> Filter<D> {
                path.filter(searched.into_json(), Predicate::ArrayContains)
            }
        }
    )*};
}

macro_rules! both {
    ($($array:ty $(, $size:ident)?;)*) => {
        arrays! { $($array $(, $size)?; Option<$array> $(, $size)?;)* }
    };
}

both! { Vec<V>; VecDeque<V>; BTreeSet<V>; HashSet<V>; [V; N], N; }

macro_rules! texts {
    ($($text:ty, $searched:ty;)*) => {$(
        impl Searched<$searched> for $text {
            fn contains<D: Document, I, M>(
                path: Path<D, Self, I, M>,
                searched: $searched,
            ) -> Filter<D> {
                path.text(TextMatch::Contains, searched.as_ref(), false)
            }
        }
    )*};
}

texts! {
    String, &str; String, &String; String, String;
    Option<String>, &str; Option<String>, &String; Option<String>, String;
}

impl<D: Document, V, I, M> Path<D, V, I, M> {
    fn text(self, function: TextMatch, text: &str, ignore_case: bool) -> Filter<D> {
        self.filter(serde_json::to_value(text), |path, text| {
            Predicate::Text(path, function, text, ignore_case)
        })
    }

    /// The value is a string that starts with `prefix`.
    pub fn starts_with(self, prefix: &str) -> Filter<D>
    where
        I: Filterable<D>,
        V: TextField,
    {
        self.text(TextMatch::StartsWith, prefix, false)
    }

    /// The value is a string that starts with `prefix`, in any case. The service compares with more
    /// values of the index than for [`starts_with`](Self::starts_with).
    pub fn starts_with_ignore_case(self, prefix: &str) -> Filter<D>
    where
        I: Filterable<D>,
        V: TextField,
    {
        self.text(TextMatch::StartsWith, prefix, true)
    }

    /// The value is a string that ends with `suffix`. The service reads all values of the index.
    pub fn ends_with(self, suffix: &str) -> Filter<D>
    where
        I: Filterable<D>,
        V: TextField,
    {
        self.text(TextMatch::EndsWith, suffix, false)
    }

    /// The value is a string that ends with `suffix`, in any case. The service reads all values of
    /// the index.
    pub fn ends_with_ignore_case(self, suffix: &str) -> Filter<D>
    where
        I: Filterable<D>,
        V: TextField,
    {
        self.text(TextMatch::EndsWith, suffix, true)
    }

    /// The value is this string, in any case. The service compares with more values of the index
    /// than for [`eq`](Self::eq).
    pub fn eq_ignore_case(self, text: &str) -> Filter<D>
    where
        I: Filterable<D>,
        V: TextField,
    {
        self.text(TextMatch::Equals, text, true)
    }

    /// The value is a string that contains this text, for which the service reads all values of the
    /// index, or an array that contains this element.
    pub fn contains<O>(self, searched: O) -> Filter<D>
    where
        I: Filterable<D>,
        V: Searched<O>,
    {
        V::contains(self, searched)
    }

    /// The value is a string that contains `text`, in any case. The service reads all values of the
    /// index.
    pub fn contains_ignore_case(self, text: &str) -> Filter<D>
    where
        I: Filterable<D>,
        V: TextField,
    {
        self.text(TextMatch::Contains, text, true)
    }

    /// The value is an array that contains at least one of `elements`. Never holds for an empty
    /// list.
    pub fn contains_any<O>(self, elements: impl IntoIterator<Item = O>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Array,
        O: Operand<V::Element>,
        V::Element: Scalar,
    {
        let each = self.each(elements);
        each.fold(Filter::none(), Filter::or)
    }

    /// The value is an array that contains all of `elements`. Always holds for an empty list.
    pub fn contains_all<O>(self, elements: impl IntoIterator<Item = O>) -> Filter<D>
    where
        I: Filterable<D>,
        V: Array,
        O: Operand<V::Element>,
        V::Element: Scalar,
    {
        let each = self.each(elements);
        each.fold(Filter::all(), Filter::and)
    }

    fn each<O: Operand<V::Element>>(
        self,
        elements: impl IntoIterator<Item = O>,
    ) -> impl Iterator<Item = Filter<D>>
    where
        V: Array,
    {
        let elements = elements.into_iter();
        elements.map(move |element| self.filter(element.into_json(), Predicate::ArrayContains))
    }
}
