//! The items that `#[derive(SearchAttributes)]` uses. Not public API: it can change in any release.

pub use core::result::Result;
pub use std::vec;

pub use cdb_model::document::{Fixed, Indexed, Path};

pub use crate::stored::attributes::{
    Attributes, AttributesError, Codec, SearchAttributes, Values, codec, read,
};
pub use crate::stored::documents::Instance;
