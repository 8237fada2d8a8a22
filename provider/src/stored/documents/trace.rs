//! The times of traces: documents that stay after a message is consumed or a spill is committed, so
//! that a late creation conflicts.

use cdb_model::Timestamp;

use crate::timing::REMEMBERED;

/// The due time of consumed messages, which are never due again: the last millisecond of a
/// four-digit year.
pub const NEVER: Timestamp = Timestamp::from_millis(253_402_300_799_999);

/// The due time of what is withheld from a paused instance: before [`NEVER`], so that it differs from a
/// trace.
pub const PAUSED: Timestamp = Timestamp::from_millis(253_402_300_799_998);

/// The seconds for which a delivery is remembered: one day. An intent is deleted right after its
/// delivery; the trace has to outlive failed deletions.
#[expect(clippy::cast_possible_truncation, reason = "a constant below 2^32")]
pub(super) const REMEMBERED_SECONDS: u32 = REMEMBERED.as_secs() as u32;
