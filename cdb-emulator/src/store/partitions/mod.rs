//! Effective partition keys, and the physical partitions that hold their ranges.

pub(crate) mod epk;
pub(crate) mod ranges;
