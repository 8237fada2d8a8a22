//! Integers that are stored as text, because the service stores numbers as doubles.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use super::id::IdPart;
use super::partition_key::{PartitionKeyPart, PartitionKeyValue};

/// An integer that is stored as text, so that all of its 64 bits survive. The service stores numbers
/// as doubles, and this crate refuses to write an integer beyond 2^53 as a number.
///
/// It can be read from a number too, so an existing field can get this type; filters do not find such
/// a document until it is written again. Its digits do not sort, which those of a
/// [`SortableText`](crate::value::SortableText) do, and a patch cannot increment it.
///
/// ```
/// use cdb_model::{Document, PartitionKey};
/// use cdb_model::value::TextInteger;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "reading", id = "{sensor}:{serial}")]
/// struct Reading {
///     #[document(partition_key)]
///     sensor: TextInteger<u64>,
///     serial: TextInteger<i64>,
/// }
///
/// fn main() -> Result<(), serde_json::Error> {
///     let reading = Reading { sensor: u64::MAX.into(), serial: i64::MIN.into() };
///     let json = Reading::field_codec().write(&reading)?;
///     assert_eq!(json, r#"{"sensor":"18446744073709551615","serial":"-9223372036854775808"}"#);
///     assert_eq!(reading.partition_key(), PartitionKey::from("18446744073709551615"));
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextInteger<T>(pub T);

impl<T> From<T> for TextInteger<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: fmt::Display> fmt::Display for TextInteger<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> Serialize for TextInteger<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr> Deserialize<'de> for TextInteger<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let parsed = text.parse().map(Self);
        parsed
            .map_err(|_| D::Error::custom(format_args!("`{text}` is not an integer of this type")))
    }
}

impl<T: IdPart> IdPart for TextInteger<T> {
    fn to_id_part(&self) -> String {
        self.0.to_id_part()
    }

    fn from_id_part(text: &str) -> Result<Self, String> {
        T::from_id_part(text).map(Self)
    }
}

impl<T: fmt::Display> PartitionKeyPart for TextInteger<T> {
    fn to_partition_key_value(&self) -> PartitionKeyValue {
        PartitionKeyValue::String(self.to_string())
    }
}
