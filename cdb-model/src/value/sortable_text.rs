//! Values that are stored as text with their own order, because the service stores numbers as doubles
//! and has no type for times.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::id::IdPart;
use super::partition_key::{PartitionKeyPart, PartitionKeyValue};
use super::scalar::{Ordered, Scalar};

/// A value that is stored as text of fixed width, which sorts as the value does: an integer of 64
/// bits, or a time or decimal of a crate whose feature is enabled. Filters, sorts, ids and partition
/// keys take it.
///
/// ```
/// use cdb_model::Document;
/// use cdb_model::value::SortableText;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "account", id = "{number}")]
/// struct Account {
///     #[document(partition_key)]
///     number: SortableText<u64>,
///     #[document(index)]
///     balance: SortableText<i64>,
/// }
///
/// fn main() -> Result<(), serde_json::Error> {
///     let account = Account { number: 7.into(), balance: (-250).into() };
///     let json = Account::field_codec().write(&account)?;
///     // The digits of a negative number are complements, so that -250 sorts after -251.
///     assert_eq!(json, r#"{"number":"00000000000000000007","balance":"-9999999999999999749"}"#);
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortableText<T>(pub T);

/// A type with a text form for [`SortableText`]: equal values have the same text, and texts have the
/// order of the values, byte by byte.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no sortable text",
    note = "it exists for `u64`, `i64`, and types of crates whose features are enabled; for another type, implement `SortableForm`"
)]
pub trait SortableForm: Sized {
    /// Returns the text.
    fn to_sortable(&self) -> String;
    /// Reads the text; `None` if it is not the text of a value. The caller refuses a text that
    /// `to_sortable` would write differently.
    fn from_sortable(text: &str) -> Option<Self>;
}

impl SortableForm for u64 {
    fn to_sortable(&self) -> String {
        format!("{self:020}")
    }

    fn from_sortable(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl SortableForm for i64 {
    fn to_sortable(&self) -> String {
        signed(*self < 0, &format!("{:019}", self.unsigned_abs()))
    }

    fn from_sortable(text: &str) -> Option<Self> {
        let (is_negative, digits) = unsigned(text);
        format!("{}{digits}", if is_negative { "-" } else { "" })
            .parse()
            .ok()
    }
}

/// Returns the text of a number with these digits, always as many. `-` sorts before digits; the
/// complement of each digit sorts in reverse.
pub(crate) fn signed(is_negative: bool, digits: &str) -> String {
    if is_negative {
        format!("-{}", complement(digits))
    } else {
        digits.to_owned()
    }
}

/// Returns whether a number is negative, and its digits.
pub(crate) fn unsigned(text: &str) -> (bool, String) {
    match text.strip_prefix('-') {
        Some(digits) => (true, complement(digits)),
        None => (false, text.to_owned()),
    }
}

fn complement(digits: &str) -> String {
    let complements = digits.chars().map(|c| match c.to_digit(10) {
        Some(digit) => char::from_digit(9 - digit, 10).unwrap_or(c),
        None => c,
    });
    complements.collect()
}

fn read<T: SortableForm>(text: &str) -> Result<SortableText<T>, String> {
    let value = T::from_sortable(text).filter(|value| value.to_sortable() == text);
    let value = value.map(SortableText);
    value.ok_or_else(|| format!("`{text}` is not a sortable text of this type"))
}

impl<T> From<T> for SortableText<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: fmt::Display> fmt::Display for SortableText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: SortableForm> Serialize for SortableText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_sortable())
    }
}

impl<'de, T: SortableForm> Deserialize<'de> for SortableText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        read(&text).map_err(D::Error::custom)
    }
}

impl<T: SortableForm> Scalar for SortableText<T> {}

impl<T: SortableForm + Send + 'static> Ordered for SortableText<T> {
    type Value = Self;
}

impl<T: SortableForm> IdPart for SortableText<T> {
    fn to_id_part(&self) -> String {
        self.0.to_sortable()
    }

    fn from_id_part(text: &str) -> Result<Self, String> {
        read(text)
    }
}

impl<T: SortableForm> PartitionKeyPart for SortableText<T> {
    fn to_partition_key_value(&self) -> PartitionKeyValue {
        PartitionKeyValue::String(self.0.to_sortable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks ascending values.
    fn check<T: SortableForm + PartialEq + fmt::Debug + Copy>(values: &[T]) {
        let texts: Vec<_> = values.iter().map(T::to_sortable).collect();
        assert!(texts.is_sorted_by(|a, b| a < b), "{texts:?}");
        for (value, text) in values.iter().zip(&texts) {
            assert_eq!(read(text), Ok(SortableText(*value)));
        }
    }

    #[test]
    fn texts_have_the_order_of_their_values_and_are_read_back() {
        check(&[0, 9, 10, u64::MAX]);
        check(&[i64::MIN, i64::MIN + 1, -250, -249, -1, 0, 9, 10, i64::MAX]);
    }

    #[test]
    fn another_text_of_a_value_is_refused() {
        for text in [
            "7",
            "-0000000000000000000",
            "-9999999999999999999",
            "+000000000000000007",
        ] {
            assert!(read::<i64>(text).is_err(), "{text}");
        }
        let error = read::<u64>("7").unwrap_err();
        assert_eq!(error, "`7` is not a sortable text of this type");
    }
}
