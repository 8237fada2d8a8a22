//! Parts of a statement: text, stored paths and values.

use std::borrow::Cow;

use serde_json::Value;

use super::value_error::ValueError;

/// A part of a statement, such as a column or a condition. Its values become parameters.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fragment {
    pub(super) pieces: Vec<Piece>,
    /// The first value that cannot be serialized.
    pub(super) invalid: Option<ValueError>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(Cow<'static, str>),
    Path(&'static str),
    Value(Value),
}

impl Fragment {
    /// Starts an empty fragment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends SQL.
    #[must_use]
    pub fn text(mut self, sql: impl Into<Cow<'static, str>>) -> Self {
        self.pieces.push(Piece::Text(sql.into()));
        self
    }

    /// Appends the property access of a stored path.
    #[must_use]
    pub fn path(mut self, pointer: &'static str) -> Self {
        self.pieces
            .push(Piece::Path(pointer.trim_end_matches("/[]")));
        self
    }

    /// Appends a value that is compared with `path`.
    #[must_use]
    pub fn value(mut self, path: &'static str, value: serde_json::Result<Value>) -> Self {
        match value {
            Ok(value) => self.pieces.push(Piece::Value(value)),
            Err(error) => {
                let error = ValueError::new(path, &error);
                self.invalid.get_or_insert(error);
            }
        }
        self
    }

    /// Appends another fragment.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.pieces.extend(other.pieces);
        self.invalid = self.invalid.or(other.invalid);
        self
    }

    /// Returns the paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Path(pointer) => Some(*pointer),
            Piece::Text(_) | Piece::Value(_) => None,
        })
    }

    /// Returns an object literal with these properties.
    pub(crate) fn object(properties: impl IntoIterator<Item = (Cow<'static, str>, Self)>) -> Self {
        let mut object = Self::new().text("{");
        for (at, (name, value)) in properties.into_iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            object = object
                .text(format!("{comma}{}: ", Value::from(&*name)))
                .then(value);
        }
        object.text("}")
    }
}
