//! The limits of search attributes. They are checked when an orchestration sets them, so that no
//! commit fails.

use crate::stored::documents::AttributeValue;

/// The most attributes of an instance. Each is an index entry of every write of the instance. The
/// derive has the same limit.
pub(super) const MAX_ATTRIBUTES: usize = 16;

/// The most bytes of a string.
const MAX_STRING_BYTES: usize = 256;

/// The most bytes of all attributes as JSON.
const MAX_BYTES: usize = 4 * 1024;

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
        "search attribute `{name}` is not a finite number, or is an integer beyond ±2^53; use a string"
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
    /// The stored attributes are not an object of at most 16 strings, booleans and numbers.
    #[error("the stored search attributes are not valid: {0}")]
    Stored(String),
}

impl From<AttributesError> for String {
    fn from(error: AttributesError) -> Self {
        error.to_string()
    }
}

/// Checks one attribute.
pub(super) fn check(name: &str, value: &AttributeValue) -> Result<(), AttributesError> {
    let name = || name.to_owned();
    match value {
        AttributeValue::String(text) if text.len() > MAX_STRING_BYTES => {
            let bytes = text.len();
            Err(AttributesError::StringTooLong {
                name: name(),
                bytes,
            })
        }
        AttributeValue::Number(number) if !number.is_finite() => {
            Err(AttributesError::Number { name: name() })
        }
        AttributeValue::Bool(_) | AttributeValue::Number(_) | AttributeValue::String(_) => Ok(()),
    }
}

/// Checks the size of all attributes.
pub(super) fn check_size(json: &str) -> Result<(), AttributesError> {
    if json.len() > MAX_BYTES {
        return Err(AttributesError::TooLarge { bytes: json.len() });
    }
    Ok(())
}
