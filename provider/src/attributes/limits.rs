//! The limits of search attributes. They are checked when an orchestration sets them, so that no
//! commit fails.

use serde_json::Value;

/// The most attributes of an instance. Each is an index entry of every write of the instance. The
/// derive has the same limit.
pub(super) const MAX_ATTRIBUTES: usize = 16;

/// The most bytes of a string.
const MAX_STRING_BYTES: usize = 256;

/// The most bytes of all attributes as JSON.
pub(super) const MAX_BYTES: usize = 4 * 1024;

/// The largest integer up to which a double, the number of Cosmos DB, represents every integer.
const MAX_INTEGER: u64 = 1 << 53;

/// Why search attributes cannot be set or read. Converts to a `String`, the error of an
/// orchestration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttributesError {
    /// A string is too long.
    #[error(
        "search attribute `{name}` has {bytes} bytes; shorten the string to {MAX_STRING_BYTES} bytes"
    )]
    StringTooLong {
        /// The attribute.
        name: String,
        /// The length of the string.
        bytes: usize,
    },
    /// The attributes are too large together.
    #[error("the search attributes have {bytes} bytes as JSON; shorten them to {MAX_BYTES} bytes")]
    TooLarge {
        /// The length of their JSON.
        bytes: usize,
    },
    /// The service cannot store a number: it is not finite, or an integer beyond ±2^53.
    #[error(
        "search attribute `{name}` is not a finite number, or an integer beyond ±2^53; store it as a string"
    )]
    Number {
        /// The attribute.
        name: String,
    },
    /// A stored value does not have the type of its field.
    #[error(
        "the stored search attribute `{name}` does not have the type of its field; set the attributes again"
    )]
    Mismatch {
        /// The attribute.
        name: String,
    },
    /// The stored attributes are not an object of strings, booleans and numbers.
    #[error("the stored search attributes are not valid: {0}")]
    Stored(String),
}

impl From<AttributesError> for String {
    fn from(error: AttributesError) -> Self {
        error.to_string()
    }
}

/// Checks one attribute.
pub(super) fn check(name: &str, value: &Value) -> Result<(), AttributesError> {
    match value {
        Value::String(text) if text.len() > MAX_STRING_BYTES => {
            Err(AttributesError::StringTooLong {
                name: name.to_owned(),
                bytes: text.len(),
            })
        }
        Value::String(_) | Value::Bool(_) => Ok(()),
        Value::Number(number) => {
            let unsigned = number.as_i64().map(i64::unsigned_abs);
            let unsigned = unsigned.or(number.as_u64());
            if unsigned.is_some_and(|integer| integer > MAX_INTEGER) {
                return Err(unrepresentable(name));
            }
            Ok(())
        }
        // JSON has no form of NaN and infinity; serde writes them as null.
        Value::Null => Err(unrepresentable(name)),
        Value::Array(_) | Value::Object(_) => Err(AttributesError::Mismatch {
            name: name.to_owned(),
        }),
    }
}

fn unrepresentable(name: &str) -> AttributesError {
    AttributesError::Number {
        name: name.to_owned(),
    }
}

/// Checks the size of all attributes.
pub(super) fn check_size(json: &str) -> Result<(), AttributesError> {
    if json.len() > MAX_BYTES {
        return Err(AttributesError::TooLarge { bytes: json.len() });
    }
    Ok(())
}
