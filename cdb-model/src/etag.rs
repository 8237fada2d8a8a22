//! Versions of documents as the service names them.
//!
//! An ETag carries its own quotation marks (`"0000-…"`); they are part of the value and go back as they came.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of a stored document, opaque, quotation marks included.
///
/// ```
/// let etag = cdb_model::ETag::new("\"0000-1\"");
/// assert_eq!(etag.as_str(), "\"0000-1\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ETag(String);

impl ETag {
    /// Takes the value as the service sent it.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value as the service wants it back.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
