//! The limits of the effects of one activity. A batch holds 100 operations and 2 MB; the remainder is
//! reserved for the completion of the activity.

/// The maximum number of operations that an activity can stage.
pub(super) const MAX_OPERATIONS: usize = 80;

/// The maximum number of bytes that an activity can stage.
pub(super) const MAX_BYTES: usize = 1_500_000;
