//! The stored form of search attributes: a JSON object under one key of the key-value store, and
//! the same object in the instance document. Their limits are checked when an orchestration sets
//! them, so that no commit fails.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::stored::documents::{AttributeValue, KeyValue};

/// The key of the key-value store.
pub(crate) const KEY: &str = KeyValue::SEARCH_ATTRIBUTES;

/// Attributes by name, in the order of names: replay compares the text of a value.
pub type Attributes = BTreeMap<String, AttributeValue>;

/// The attributes of a struct, in the order of its fields.
pub type Values = Vec<(&'static str, Option<AttributeValue>)>;

/// Returns the text to store. Values that are `None` are left out.
pub(super) fn to_text(values: Values) -> Result<String, AttributesError> {
    let mut attributes = Attributes::new();
    for (name, value) in values {
        if let Some(value) = value {
            check(name, &value)?;
            attributes.insert(name.to_owned(), value);
        }
    }
    let text = serde_json::to_string(&attributes).map_err(invalid)?;
    check_size(&text)?;
    Ok(text)
}

/// Reads a stored text.
pub(super) fn from_text(text: &str) -> Result<Attributes, AttributesError> {
    serde_json::from_str(text).map_err(invalid)
}

/// Describes an error without its text, which may quote a payload.
#[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
fn invalid(error: serde_json::Error) -> AttributesError {
    let (category, column) = (error.classify(), error.column());
    AttributesError::Stored(format!("{category:?} error at column {column}"))
}

/// A member of a stored object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Member {
    Valid(AttributeValue),
    Invalid(IgnoredAny),
}

/// Returns the valid attributes of a stored text, and the errors of the others.
pub(crate) fn valid(text: &str) -> (Attributes, Vec<AttributesError>) {
    let members = check_size(text)
        .and_then(|()| serde_json::from_str::<BTreeMap<String, Member>>(text).map_err(invalid));
    let members = match members {
        Ok(members) => members,
        Err(error) => return (Attributes::new(), vec![error]),
    };
    let (mut attributes, mut refused) = (Attributes::new(), Vec::new());
    for (name, member) in members {
        let checked = match member {
            Member::Invalid(_) => Err(AttributesError::Mismatch { name: name.clone() }),
            Member::Valid(_) if attributes.len() == MAX_ATTRIBUTES => {
                let text = format!("`{name}` is one more than {MAX_ATTRIBUTES}");
                Err(AttributesError::Stored(text))
            }
            Member::Valid(value) => check(&name, &value).map(|()| value),
        };
        match checked {
            Ok(value) => drop(attributes.insert(name, value)),
            Err(error) => refused.push(error),
        }
    }
    (attributes, refused)
}

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
    /// The service cannot store a number: it is not finite, or an integer beyond ±(2^53 - 1).
    #[error(
        "search attribute `{name}` is not a finite number, or is an integer beyond ±(2^53 - 1); use a string"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_stored_values_are_left_out_and_reported() {
        let long = "x".repeat(257);
        let text =
            format!(r#"{{"a":"x","b":true,"c":1.5,"d":null,"e":[1],"f":{{}},"g":"{long}"}}"#);
        let (attributes, refused) = valid(&text);
        assert_eq!(attributes.into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(refused.len(), 4);
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(4096));
        for text in ["[]", "", "{", "7", &large] {
            let (attributes, refused) = valid(text);
            assert!(attributes.is_empty() && refused.len() == 1, "{text}");
        }
        let (_, refused) = valid(r#""a secret""#);
        assert_eq!(
            refused[0].to_string(),
            "the stored search attributes are not valid: Data error at column 10"
        );
        let number = |n: i128| (format!("a{n:02}"), AttributeValue::integer(n).unwrap());
        let many: Attributes = (0..20).map(number).collect();
        let (attributes, refused) = valid(&serde_json::to_string(&many).unwrap());
        assert_eq!((attributes.len(), refused.len()), (16, 4));
    }
}
