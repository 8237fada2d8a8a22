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
use crate::shape::{DocumentShape, IdSegment};

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
/// use cdb_model::value::IdPart;
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

/// For generated code: the conversions of a type, in a constant at the field, so that an unsupported
/// type is one error.
#[derive(Debug)]
pub struct IdCodec<T> {
    write: fn(&T) -> String,
    read: fn(&str) -> Result<T, String>,
}

/// Returns the conversions of a type.
pub const fn id_codec<T: IdPart>() -> IdCodec<T> {
    IdCodec {
        write: T::to_id_part,
        read: T::from_id_part,
    }
}

impl<T> IdCodec<T> {
    /// Returns the text form of a component, before escaping.
    pub fn write(&self, value: &T) -> String {
        (self.write)(value)
    }

    /// Reads a component.
    ///
    /// # Errors
    /// When the component is not the canonical text of a `T`.
    pub fn read(&self, name: &str, id: &IdParts<'_>) -> Result<T, IdError> {
        let raw = id.component(name).unwrap_or_default();
        let value = unescape(raw)
            .and_then(|text| (self.read)(&text))
            .map_err(|reason| id.malformed(format!("in `{name}`: {reason}")))?;
        // Otherwise, `007` and `7` would be two ids of the same key.
        let mut canonical = String::with_capacity(raw.len());
        escape_into(&mut canonical, &self.write(&value));
        if canonical == raw {
            Ok(value)
        } else {
            let reason = format!("in `{name}`: `{raw}` must be written `{canonical}`");
            Err(id.malformed(reason))
        }
    }
}

/// For generated code: returns the id with these components, which are not escaped.
///
/// # Errors
/// [`IdError::TooLong`], with the longest component.
pub fn format_id(
    shape: &DocumentShape,
    components: &[(&'static str, String)],
) -> Result<ItemId, IdError> {
    let mut out = String::new();
    let mut longest = ("", 0);
    for segment in shape.id {
        let before = out.len();
        match segment {
            IdSegment::Literal(text) => out.push_str(text),
            IdSegment::Field(name) => {
                let component = components.iter().find(|(known, _)| known == name);
                escape_into(&mut out, component.map_or("", |(_, text)| text));
                let length = out.len() - before;
                if length > longest.1 || longest.0.is_empty() {
                    longest = (name, length);
                }
            }
        }
    }
    if out.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong {
            document: shape.name,
            length: out.len(),
            component: longest.0,
            component_length: longest.1,
        });
    }
    Ok(ItemId(out))
}

/// For generated code: the components of an id, escaped.
#[derive(Debug)]
pub struct IdParts<'a> {
    document: &'static str,
    id: &'a str,
    components: Vec<(&'static str, &'a str)>,
}

impl<'a> IdParts<'a> {
    /// Splits an id at the literals and separators of its pattern.
    ///
    /// # Errors
    /// When the id has other literals, or two values of a repeated component.
    pub fn split(shape: &DocumentShape, id: &'a str) -> Result<Self, IdError> {
        let mut parts = Self {
            document: shape.name,
            id,
            components: Vec::new(),
        };
        let mut rest = id;
        for segment in shape.id {
            let end = match segment {
                IdSegment::Literal(text) if rest.starts_with(text) => text.len(),
                IdSegment::Literal(text) => {
                    return Err(parts.malformed(format!("expected `{text}` at `{rest}`")));
                }
                IdSegment::Field(_) => rest.find(SEPARATORS).unwrap_or(rest.len()),
            };
            let (raw, after) = rest.split_at(end);
            if let IdSegment::Field(name) = segment {
                if parts.component(name).is_some_and(|first| first != raw) {
                    return Err(parts.malformed(format!("`{name}` has two different values")));
                }
                parts.components.push((name, raw));
            }
            rest = after;
        }
        if rest.is_empty() {
            Ok(parts)
        } else {
            Err(parts.malformed(format!("`{rest}` remains after the last component")))
        }
    }

    fn component(&self, name: &str) -> Option<&'a str> {
        let mut components = self.components.iter();
        components.find_map(|(known, raw)| (*known == name).then_some(*raw))
    }

    fn malformed(&self, reason: String) -> IdError {
        IdError::Malformed {
            document: self.document,
            id: self.id.to_owned(),
            reason,
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

    const ORDER: DocumentShape = DocumentShape {
        name: "Order",
        id: &[
            IdSegment::Field("customer"),
            IdSegment::Literal(":order:"),
            IdSegment::Field("number"),
        ],
        ..DocumentShape::EMPTY
    };

    #[test]
    fn a_component_that_is_not_canonical_is_refused() {
        let parts = IdParts::split(&ORDER, "ada:order:007").unwrap();
        let error = id_codec::<u64>().read("number", &parts).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`ada:order:007` is not an id of `Order`: in `number`: `007` must be written `7`"
        );
    }

    #[test]
    fn the_error_about_a_long_id_names_the_longest_component() {
        let components = [
            ("customer", "c".to_owned()),
            ("number", "7".repeat(MAX_ID_BYTES)),
        ];
        let error = format_id(&ORDER, &components).unwrap_err();
        assert!(
            error.to_string().contains("`number` with 1023 bytes"),
            "{error}"
        );
    }
}
