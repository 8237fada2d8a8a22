//! What the checks read: a variant, its container, and the types of the container.

use super::text::is_property;
use crate::container::{Container, DefaultTtl};
use crate::shape::DocumentShape;

/// A variant and its container.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub(super) container: &'static str,
    pub(super) partition_key: &'static [&'static str],
    pub(super) discriminator: &'static str,
    pub(super) default_ttl: DefaultTtl,
    /// All types of the container.
    pub(super) documents: &'static [&'static DocumentShape],
    /// The index of the variant's type, which is compared with the types before it.
    pub(super) own: usize,
}

impl Place {
    /// Returns the variant of `C` with this index from the end.
    pub const fn new<C: Container>(container: &'static str, from_end: usize) -> Self {
        Self {
            container,
            partition_key: C::PARTITION_KEY,
            discriminator: C::DISCRIMINATOR,
            default_ttl: C::DEFAULT_TTL,
            documents: C::DOCUMENTS,
            own: C::DOCUMENTS.len() - from_end,
        }
    }

    pub(super) const fn shape(&self) -> &'static DocumentShape {
        self.documents[self.own]
    }

    /// Whether the derive of the container or of the document has failed.
    pub(super) const fn is_stub(&self) -> bool {
        self.partition_key.is_empty() || self.shape().partition_key.is_empty()
    }
}

/// Returns the path of the property if the document stores it.
pub(super) const fn stored_path(shape: &DocumentShape, name: &str) -> Option<&'static str> {
    let mut at = 0;
    while at < shape.fields.len() {
        if is_property(shape.fields[at].path, name) {
            return Some(shape.fields[at].path);
        }
        at += 1;
    }
    // A flattened partition key is not among the fields.
    let mut level = 0;
    while level < shape.partition_key.len() {
        if is_property(shape.partition_key[level], name) {
            return Some(shape.partition_key[level]);
        }
        level += 1;
    }
    None
}
