//! Sessions: all activities of a session go to one worker, while it holds the session.
//!
//! The batch that locks an activity also claims its session, so after a lost answer the activity's
//! lock tells the outcome of both. Conditional patches keep a session, so they do not conflict with
//! activities that note their progress. The lock of a session is an owner's name instead of a
//! version (`documents/session.rs`), so the version-based functions of `cdb_coordination::lease::lock` do
//! not apply. The table in memory only saves requests.

mod claim;
mod keep;
mod table;

pub(crate) use claim::Claim;
pub(crate) use table::Sessions;
