//! The indexes of a container: what its policy indexes, and the columns that hold it.

pub(super) mod columns;
mod entries;
pub(super) mod policy;
