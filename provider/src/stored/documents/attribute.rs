//! The value of a search attribute.

use serde::{Deserialize, Serialize, Serializer};

/// Integers up to this one have one double each.
const MAX_INTEGER: f64 = 9_007_199_254_740_991.0;

/// The value of a search attribute, in the types that an index of the service compares.
///
/// ```
/// use cdb_provider::documents::AttributeValue;
///
/// let whole = AttributeValue::Number(3.0);
/// assert_eq!(serde_json::to_string(&whole)?, "3");
/// assert_eq!(serde_json::from_str::<AttributeValue>("3")?, whole);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum AttributeValue {
    /// A boolean.
    Bool(bool),
    /// A number. The service stores all numbers as doubles.
    Number(f64),
    /// A string.
    String(String),
}

impl AttributeValue {
    /// Returns an integer; `None` if a double cannot represent it.
    pub(crate) fn integer(value: i128) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "integers up to 2^53 are exact")]
        let number = value as f64;
        (number.abs() <= MAX_INTEGER).then_some(Self::Number(number))
    }

    /// Returns the value as an integer; `None` if it is not one.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Number(number) if number.fract() == 0.0 && number.abs() <= MAX_INTEGER => {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and at most 2^53")]
                let integer = *number as i64;
                Some(integer)
            }
            _ => None,
        }
    }
}

impl Serialize for AttributeValue {
    /// Writes an integer without a fraction, as the service does.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self, self.as_integer()) {
            (_, Some(integer)) => serializer.serialize_i64(integer),
            (Self::Number(number), None) => serializer.serialize_f64(*number),
            (Self::Bool(value), _) => serializer.serialize_bool(*value),
            (Self::String(text), _) => serializer.serialize_str(text),
        }
    }
}
