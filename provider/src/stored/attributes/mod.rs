//! Search attributes: typed values of an orchestration, by which its instance is found.
//!
//! An orchestration sets them under one key of its key-value store. Every commit copies them from
//! that store into the instance document, whose policy indexes all of them as one subtree. So no
//! request is added, and a commit by an older version is repaired by the next one.

mod derived;
mod stored;

pub use derived::{Attribute, Codec, SearchAttributes, codec, read};
pub use stored::{Attributes, AttributesError, Values};
pub(crate) use stored::{KEY, valid};
