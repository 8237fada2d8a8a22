//! The memory of queued items.

/// The estimated memory of a queued message or activity beside its texts, in bytes.
pub(crate) const ITEM_OVERHEAD: usize = 512;
