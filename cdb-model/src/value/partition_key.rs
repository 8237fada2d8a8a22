//! Partition key values of one to three levels, and their form in the request header.
//!
//! The header is ASCII, so other characters are escaped as JSON allows (UTF-16 code units). The
//! output of `serde_json::to_string` would be refused or corrupted.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::limits::{MAX_EXACT_INTEGER, MAX_PARTITION_KEY_BYTES, MAX_PARTITION_KEY_LEVELS};

/// The value of one level. Serialized as a JSON scalar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum PartitionKeyValue {
    /// A string of at most 2048 bytes.
    String(String),
    /// An integer that a JSON number represents exactly.
    Integer(i64),
    /// A boolean.
    Bool(bool),
}

/// A type that can be a level of a partition key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a partition key",
    label = "this field is marked `#[document(partition_key)]`",
    note = "use a string, a bool, an integer of at most 32 bits, a `TextInteger`, or a `SortableText`; the service stores larger numbers inexactly",
    note = "for a type of `chrono`, `jiff`, `rust_decimal`, `time` or `uuid`, enable the feature of this name of cdb-model"
)]
pub trait PartitionKeyPart {
    /// Returns the value of this level.
    fn to_partition_key_value(&self) -> PartitionKeyValue;
}

impl PartitionKeyPart for String {
    fn to_partition_key_value(&self) -> PartitionKeyValue {
        PartitionKeyValue::String(self.clone())
    }
}

impl PartitionKeyPart for str {
    fn to_partition_key_value(&self) -> PartitionKeyValue {
        PartitionKeyValue::String(self.to_owned())
    }
}

impl PartitionKeyPart for bool {
    fn to_partition_key_value(&self) -> PartitionKeyValue {
        PartitionKeyValue::Bool(*self)
    }
}

impl<T: PartitionKeyPart + ?Sized> PartitionKeyPart for &T {
    fn to_partition_key_value(&self) -> PartitionKeyValue {
        (**self).to_partition_key_value()
    }
}

macro_rules! integer_parts {
    ($($ty:ty),*) => {$(
        impl PartitionKeyPart for $ty {
            fn to_partition_key_value(&self) -> PartitionKeyValue {
                PartitionKeyValue::Integer(i64::from(*self))
            }
        }
    )*};
}

integer_parts!(u8, u16, u32, i8, i16, i32);

/// The fields of a partition key as a struct, which several document types contain. Implemented by
/// [`#[derive(PartitionKeyFields)]`](macro@crate::PartitionKeyFields); the fields are the levels,
/// outermost first.
///
/// ```
/// use cdb_model::{Container, Document, PartitionKeyFields};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(PartitionKeyFields, Clone, Serialize, Deserialize)]
/// struct Tenant {
///     region: String,
///     tenant: u32,
/// }
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "invoice", id = "invoice:{number}")]
/// struct Invoice {
///     #[serde(flatten)]
///     #[document(partition_key)]
///     tenant: Tenant,
///     number: u64,
/// }
///
/// #[derive(Container)]
/// enum Billing {
///     Invoice(Invoice),
/// }
///
/// let tenant = Tenant { region: "eu".into(), tenant: 7 };
/// let address = InvoiceKey::new(1_u64).in_partition(&tenant);
/// assert_eq!(Billing::PARTITION_KEY, ["/region", "/tenant"]);
/// assert_eq!(Invoice { tenant, number: 1 }.partition_key(), ("eu", 7).into());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a struct of partition key fields",
    label = "this field is a flattened partition key",
    note = "add `#[derive(PartitionKeyFields)]` to the struct"
)]
pub trait PartitionKeyFields {
    /// The paths, outermost level first.
    const PATHS: &'static [&'static str];

    /// Returns the partition key with these values.
    fn to_partition_key(&self) -> PartitionKey;
}

/// A partition key value: one value per level. Serialized as an array.
///
/// Created from a value, or from a tuple for a hierarchical key:
/// `PartitionKey::from(("tenant-1", "ada"))`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionKey(Vec<PartitionKeyValue>);

impl PartitionKey {
    /// Creates a key from the values of one to three levels, outermost first.
    pub fn from_values(values: Vec<PartitionKeyValue>) -> Self {
        debug_assert!((1..=MAX_PARTITION_KEY_LEVELS).contains(&values.len()));
        Self(values)
    }

    /// Returns the values, outermost level first.
    pub fn values(&self) -> &[PartitionKeyValue] {
        &self.0
    }

    /// Whether the service stores all values exactly. It rounds integers beyond 2^53.
    pub fn is_exact(&self) -> bool {
        let exact = |value: &PartitionKeyValue| match value {
            PartitionKeyValue::Integer(number) => number.unsigned_abs() <= MAX_EXACT_INTEGER,
            PartitionKeyValue::String(_) | PartitionKeyValue::Bool(_) => true,
        };
        self.0.iter().all(exact)
    }

    /// Checks that the service accepts the length of each value.
    ///
    /// # Errors
    /// Names the first value that is too long.
    pub fn check_length(&self) -> Result<(), KeyTooLong> {
        KeyTooLong::check(self.0.iter().map(|value| match value {
            PartitionKeyValue::String(text) => text.len(),
            PartitionKeyValue::Integer(_) | PartitionKeyValue::Bool(_) => 0,
        }))
    }

    /// Returns the value of the header `x-ms-documentdb-partitionkey`: a JSON array in ASCII.
    pub fn to_header(&self) -> String {
        let mut out = String::from("[");
        for (level, value) in self.0.iter().enumerate() {
            if level > 0 {
                out.push(',');
            }
            match value {
                PartitionKeyValue::String(text) => write_ascii_json(&mut out, text),
                PartitionKeyValue::Integer(number) => {
                    out.push_str(&number.to_string());
                }
                PartitionKeyValue::Bool(value) => {
                    out.push_str(if *value { "true" } else { "false" });
                }
            }
        }
        out.push(']');
        out
    }
}

/// A value of a partition key that is longer than the service allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "level {level} of the partition key has {bytes} bytes, the service allows {MAX_PARTITION_KEY_BYTES}; shorten the value, or store a hash of it"
)]
#[non_exhaustive]
pub struct KeyTooLong {
    /// The level, counted from 1.
    pub level: usize,
    /// The length of the value in bytes of UTF-8.
    pub bytes: usize,
}

impl KeyTooLong {
    fn check(lengths: impl IntoIterator<Item = usize>) -> Result<(), Self> {
        let mut levels = (1..).zip(lengths);
        match levels.find(|(_, bytes)| *bytes > MAX_PARTITION_KEY_BYTES) {
            Some((level, bytes)) => Err(Self { level, bytes }),
            None => Ok(()),
        }
    }
}

fn write_ascii_json(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            _ => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    // Writing to a String cannot fail.
                    let _written = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_header())
    }
}

impl<A: PartitionKeyPart> From<A> for PartitionKey {
    fn from(value: A) -> Self {
        Self(vec![value.to_partition_key_value()])
    }
}

impl<A: PartitionKeyPart, B: PartitionKeyPart> From<(A, B)> for PartitionKey {
    fn from((a, b): (A, B)) -> Self {
        Self(vec![a.to_partition_key_value(), b.to_partition_key_value()])
    }
}

impl<A: PartitionKeyPart, B: PartitionKeyPart, C: PartitionKeyPart> From<(A, B, C)>
    for PartitionKey
{
    fn from((a, b, c): (A, B, C)) -> Self {
        Self(vec![
            a.to_partition_key_value(),
            b.to_partition_key_value(),
            c.to_partition_key_value(),
        ])
    }
}

impl From<&PartitionKey> for PartitionKey {
    fn from(key: &PartitionKey) -> Self {
        key.clone()
    }
}

/// The partition key of any stored document. Unlike [`PartitionKey`], it can have levels that are
/// null, missing, or numbers with a fraction: documents of other programs have them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AnyPartitionKey {
    header: String,
    known: Option<PartitionKey>,
    length: Result<(), KeyTooLong>,
}

impl AnyPartitionKey {
    /// Reads the values at the paths of the container's definition. A missing value is a level too.
    ///
    /// # Errors
    /// Returns the path with an object or an array, which no key can contain.
    pub fn of(document: &Value, paths: &[String]) -> Result<Self, String> {
        let mut header = String::from("[");
        let mut known = Vec::with_capacity(paths.len());
        for (level, path) in paths.iter().enumerate() {
            if level > 0 {
                header.push(',');
            }
            let value = value_at(document, path);
            match value {
                // The form of a missing value: azure-cosmos-dotnet-v3 `PartitionKey.None`.
                None => header.push_str("{}"),
                Some(Value::String(text)) => write_ascii_json(&mut header, text),
                Some(Value::Number(number)) => header.push_str(&number_text(number)),
                Some(Value::Object(_) | Value::Array(_)) => return Err(path.clone()),
                Some(other) => header.push_str(&other.to_string()),
            }
            known.extend(value.and_then(|value| PartitionKeyValue::deserialize(value).ok()));
        }
        header.push(']');
        let values = paths.iter().map(|path| value_at(document, path));
        let texts = values.map(|value| value.and_then(Value::as_str).unwrap_or_default());
        let length = KeyTooLong::check(texts.map(str::len));
        let known = (known.len() == paths.len()).then(|| PartitionKey::from_values(known));
        Ok(Self {
            header,
            known: known.filter(PartitionKey::is_exact),
            length,
        })
    }

    /// Returns the key as the documents of a model have it; `None` if no document can have it.
    pub fn known(&self) -> Option<&PartitionKey> {
        self.known.as_ref()
    }

    /// Checks that the service accepts the length of each value.
    ///
    /// # Errors
    /// Names the first value that is too long.
    pub fn check_length(&self) -> Result<(), KeyTooLong> {
        self.length
    }

    /// Whether the document has none of the levels.
    pub fn is_missing(&self) -> bool {
        let levels = self.header.trim_matches(['[', ']']).split(',');
        levels.into_iter().all(|level| level == "{}")
    }

    /// Returns the value of the header `x-ms-documentdb-partitionkey`: a JSON array in ASCII.
    pub fn to_header(&self) -> &str {
        &self.header
    }
}

impl From<PartitionKey> for AnyPartitionKey {
    fn from(key: PartitionKey) -> Self {
        Self {
            header: key.to_header(),
            length: key.check_length(),
            known: Some(key),
        }
    }
}

impl<A: PartitionKeyPart> From<A> for AnyPartitionKey {
    fn from(value: A) -> Self {
        PartitionKey::from(value).into()
    }
}

/// Returns the number as the service stores it, so that equal numbers have equal texts.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(double) => double.to_string(),
        None => number.to_string(),
    }
}

/// Returns the value at a path such as `/user/id` or `/"order no"`.
fn value_at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let (mut value, mut rest) = (document, path);
    while let Some(name) = rest.strip_prefix('/') {
        let quote = name
            .chars()
            .next()
            .filter(|first| matches!(first, '"' | '\''));
        let (name, after) = match quote {
            Some(quote) => name[1..].split_once(quote)?,
            None => name.split_at(name.find('/').unwrap_or(name.len())),
        };
        (value, rest) = (value.get(name)?, after);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_key_of_any_document_is_read_at_the_paths() {
        let paths = ["/a".to_owned(), "/b/c".to_owned(), "/\"d e\"".to_owned()];
        let header = |document: Value| AnyPartitionKey::of(&document, &paths);
        let known = header(json!({ "a": "é", "b": { "c": 7.0 }, "d e": true })).unwrap();
        assert_eq!(known.to_header(), r#"["\u00e9",7,true]"#);
        let odd = header(json!({ "a": null, "b": { "c": 1.5 } })).unwrap();
        assert_eq!(odd.to_header(), "[null,1.5,{}]");
        assert_eq!((odd.known(), odd.is_missing()), (None, false));
        let same = header(json!({ "a": "x", "b": { "c": 7 }, "d e": "z" })).unwrap();
        let key = PartitionKey::from(("x", 7, "z"));
        assert_eq!(same.known(), Some(&key));
        assert_eq!(same, key.into());
        assert!(header(json!({ "b": 1 })).unwrap().is_missing());
        assert_eq!(header(json!({ "a": [1] })), Err("/a".to_owned()));
    }

    #[test]
    fn the_header_is_ascii_json() {
        let key = PartitionKey::from(("tenant \"a\\b\"", "größe\n😀", 7));
        let header = key.to_header();
        assert_eq!(
            header,
            r#"["tenant \"a\\b\"","gr\u00f6\u00dfe\u000a\ud83d\ude00",7]"#
        );
        let back: (String, String, i64) = serde_json::from_str(&header).unwrap();
        assert_eq!(back.1, "größe\n😀");
    }
}
