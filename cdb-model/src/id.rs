//! Item ids: formats typed keys as legal ids, and parses them back.
//!
//! An id consists of the literals of a pattern and of escaped components, one per field of the key.
//! The mapping is injective: an escaped component contains no separator ([`SEPARATORS`]), so it
//! ends at the next separator, and each escaped component has one original.
//!
//! The service forbids `/` and `\` in ids. Its gateways mishandle `?`, `#`, `%`, control
//! characters, a space at the end, and `.` and `..` as a path segment. An escape is `~` and two
//! hexadecimal digits of the code point (U+0000 to U+00FF); `~` alone is the empty string. The
//! escape character is not `%` because some gateways decode percent signs twice.

use std::fmt::{self, Write as _};

use crate::limits::MAX_ID_BYTES;

/// The separators of components in an id pattern. They are always escaped inside a component.
pub const SEPARATORS: [char; 4] = [':', '|', ';', ','];

const ESCAPE: char = '~';

/// The id of an item: 1 to 1023 bytes, unique within its logical partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct ItemId(String);

impl ItemId {
    /// Returns the stored form of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a stored id, which any program may have created.
    pub(crate) fn from_stored(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ItemId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Why a key has no valid id, or a text is not an id of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The id would exceed the service's limit.
    #[error(
        "the id of `{document}` would have {length} bytes, the service allows {MAX_ID_BYTES}; \
         its longest component is `{component}` with {component_length} bytes after escaping"
    )]
    TooLong {
        /// The document type.
        document: &'static str,
        /// The bytes of the id.
        length: usize,
        /// The field with the longest component.
        component: &'static str,
        /// The bytes of that component after escaping.
        component_length: usize,
    },
    /// The text is not an id of this document type.
    #[error("`{id}` is not an id of `{document}`: {reason}")]
    Malformed {
        /// The document type.
        document: &'static str,
        /// The text.
        id: String,
        /// Why it is not an id.
        reason: String,
    },
}

/// A value that can be a component of an id.
///
/// `from_id_part(to_id_part(v)) == v`, and two different values have two different texts. The key of
/// a document derives the traits of the example from its fields, so the type needs them too.
///
/// ```
/// use cdb_model::IdPart;
///
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// struct Sku(u32);
///
/// impl IdPart for Sku {
///     fn to_id_part(&self) -> String {
///         format!("{:08}", self.0)
///     }
///
///     fn from_id_part(text: &str) -> Result<Self, String> {
///         text.parse().map(Self).map_err(|_| format!("`{text}` is not eight digits"))
///     }
/// }
/// assert_eq!(Sku(42).to_id_part(), "00000042");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of an id",
    label = "this field is in the id pattern",
    note = "use an integer, a string or a bool, derive `Scalar` for a newtype, or implement `IdPart`; for a type of `chrono`, `jiff`, `rust_decimal`, `time` or `uuid`, enable the feature of this name of cdb-model and use it or its `SortableText`"
)]
pub trait IdPart: Sized {
    /// Returns the text form, before escaping.
    fn to_id_part(&self) -> String;
    /// Parses the text form.
    ///
    /// # Errors
    /// Returns the expected form as text.
    fn from_id_part(text: &str) -> Result<Self, String>;
}

impl IdPart for String {
    fn to_id_part(&self) -> String {
        self.clone()
    }

    fn from_id_part(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

macro_rules! id_part_by_display {
    ($($ty:ty => $what:literal),* $(,)?) => {$(
        impl IdPart for $ty {
            fn to_id_part(&self) -> String {
                self.to_string()
            }

            fn from_id_part(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("`{text}` is not {}", $what))
            }
        }
    )*};
}

id_part_by_display! {
    u8 => "an integer from 0 to 255",
    u16 => "an integer of 16 bits",
    u32 => "an integer of 32 bits",
    u64 => "an integer of 64 bits",
    i8 => "an integer from -128 to 127",
    i16 => "a signed integer of 16 bits",
    i32 => "a signed integer of 32 bits",
    i64 => "a signed integer of 64 bits",
    bool => "`true` or `false`",
}

fn must_be_escaped(c: char) -> bool {
    c.is_control() || SEPARATORS.contains(&c) || matches!(c, '/' | '\\' | '?' | '#' | '%' | ESCAPE)
}

/// Appends the escaped `component` to `out`.
fn escape_into(out: &mut String, component: &str) {
    if component.is_empty() {
        out.push(ESCAPE);
        return;
    }
    let last = component.len() - component.chars().next_back().map_or(0, char::len_utf8);
    for (at, c) in component.char_indices() {
        // With a dot at the start, the id could be `.` or `..`. Gateways refuse a space at the end.
        let at_the_edge = (at == 0 && c == '.') || (at == last && c == ' ');
        if at_the_edge || must_be_escaped(c) {
            // The largest escaped character is U+009F (a control character), so two digits suffice.
            let _written = write!(out, "{ESCAPE}{:02X}", u32::from(c));
        } else {
            out.push(c);
        }
    }
}

fn unescape(component: &str) -> Result<String, String> {
    if component.len() == 1 && component.starts_with(ESCAPE) {
        return Ok(String::new());
    }
    let mut out = String::with_capacity(component.len());
    let mut rest = component;
    while let Some(at) = rest.find(ESCAPE) {
        out.push_str(&rest[..at]);
        let code = rest
            .get(at + 1..at + 3)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .ok_or_else(|| format!("`{ESCAPE}` must be followed by two hexadecimal digits"))?;
        out.push(char::from(code));
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Ok(out)
}

/// For generated code: writes an id, part by part.
#[derive(Debug)]
pub struct IdWriter {
    document: &'static str,
    out: String,
    longest: (&'static str, usize),
}

impl IdWriter {
    /// Starts an id of a document type.
    pub fn new(document: &'static str) -> Self {
        Self {
            document,
            out: String::new(),
            longest: ("", 0),
        }
    }

    /// Appends a literal of the pattern, which the derive has checked.
    pub fn literal(mut self, text: &'static str) -> Self {
        self.out.push_str(text);
        self
    }

    /// Appends a component, escaped.
    pub fn field(mut self, name: &'static str, value: &impl IdPart) -> Self {
        let before = self.out.len();
        escape_into(&mut self.out, &value.to_id_part());
        let length = self.out.len() - before;
        if length > self.longest.1 || self.longest.0.is_empty() {
            self.longest = (name, length);
        }
        self
    }

    /// Returns the id.
    ///
    /// # Errors
    /// [`IdError::TooLong`], with the longest component.
    pub fn finish(self) -> Result<ItemId, IdError> {
        if self.out.len() > MAX_ID_BYTES {
            return Err(IdError::TooLong {
                document: self.document,
                length: self.out.len(),
                component: self.longest.0,
                component_length: self.longest.1,
            });
        }
        Ok(ItemId(self.out))
    }
}

/// For generated code: parses an id, part by part, in the order of its pattern.
#[derive(Debug)]
pub struct IdReader<'a> {
    document: &'static str,
    id: &'a str,
    rest: &'a str,
}

impl<'a> IdReader<'a> {
    /// Starts to parse an id.
    pub fn new(document: &'static str, id: &'a str) -> Self {
        Self {
            document,
            id,
            rest: id,
        }
    }

    fn malformed(&self, reason: String) -> IdError {
        IdError::Malformed {
            document: self.document,
            id: self.id.to_owned(),
            reason,
        }
    }

    /// Reads a literal of the pattern.
    ///
    /// # Errors
    /// When the id continues with another text.
    pub fn literal(&mut self, text: &'static str) -> Result<(), IdError> {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.malformed(format!("expected `{text}` at `{}`", self.rest))),
        }
    }

    /// Reads a component up to the next separator.
    ///
    /// # Errors
    /// When the component is not the canonical text of a `T`.
    pub fn field<T: IdPart>(&mut self, name: &'static str) -> Result<T, IdError> {
        let end = self.rest.find(SEPARATORS).unwrap_or(self.rest.len());
        let (raw, rest) = self.rest.split_at(end);
        let value = unescape(raw)
            .and_then(|text| T::from_id_part(&text))
            .map_err(|reason| self.malformed(format!("in `{name}`: {reason}")))?;
        // Otherwise, `007` and `7` would be two ids of the same key.
        let mut canonical = String::with_capacity(raw.len());
        escape_into(&mut canonical, &value.to_id_part());
        if canonical != raw {
            return Err(self.malformed(format!(
                "in `{name}`: `{raw}` must be written `{canonical}`"
            )));
        }
        self.rest = rest;
        Ok(value)
    }

    /// Reads a repeated component.
    ///
    /// # Errors
    /// When its value differs from `first`.
    pub fn repeated<T: IdPart + PartialEq>(
        &mut self,
        name: &'static str,
        first: &T,
    ) -> Result<(), IdError> {
        if self.field::<T>(name)? == *first {
            Ok(())
        } else {
            Err(self.malformed(format!("`{name}` has two different values")))
        }
    }

    /// Checks that the id ends here.
    ///
    /// # Errors
    /// When text remains.
    pub fn finish(self) -> Result<(), IdError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.malformed(format!("`{}` remains after the last component", self.rest)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(component: &str, escaped: &str) {
        let mut out = String::new();
        escape_into(&mut out, component);
        assert_eq!(out, escaped);
        assert_eq!(unescape(&out).as_deref(), Ok(component));
    }

    #[test]
    fn components_are_escaped_and_unescaped() {
        check("plain-Text_1.0", "plain-Text_1.0");
        check("", "~");
        check("~", "~7E");
        check("a:b|c;d,e", "a~3Ab~7Cc~3Bd~2Ce");
        check("/\\?#%", "~2F~5C~3F~23~25");
        check("..", "~2E.");
        check("line\nbreak\u{85}", "line~0Abreak~85");
        check("ends in space ", "ends in space~20");
        check("größe 東京 😀", "größe 東京 😀");
    }

    #[test]
    fn a_component_that_is_not_canonical_is_refused() {
        let mut reader = IdReader::new("Order", "007");
        let error = reader.field::<u64>("number").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`007` is not an id of `Order`: in `number`: `007` must be written `7`"
        );
    }

    #[test]
    fn the_error_about_a_long_id_names_the_longest_component() {
        let long = "x".repeat(MAX_ID_BYTES);
        let error = IdWriter::new("Order")
            .literal("order:")
            .field("customer", &"c".to_owned())
            .literal(":")
            .field("remark", &long)
            .finish()
            .unwrap_err();
        assert!(
            error.to_string().contains("`remark` with 1023 bytes"),
            "{error}"
        );
    }
}
