//! The limits of an activity's effects. A batch has room for 100 operations and 2 MB; the rest ends the
//! activity.

/// The most operations.
pub(super) const MAX_OPERATIONS: usize = 80;

/// The most bytes.
pub(super) const MAX_BYTES: usize = 1_500_000;
