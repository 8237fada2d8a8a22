//! One command per file.

pub(crate) mod model;
pub(crate) mod policy;
