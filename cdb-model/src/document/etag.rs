//! ETags: the versions of documents.
//!
//! The quotation marks of an ETag (`"0000-…"`) are part of its value.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of a stored document: opaque, with its quotation marks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ETag(String);

impl ETag {
    /// Wraps a value of the service.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value in the service's form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
