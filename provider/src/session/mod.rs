//! Sessions: all activities of a session go to one worker, as long as it keeps the session.
//!
//! A session is claimed in the batch that locks an activity, so what became of a lost answer the activity's lock says; and
//! kept by patches under a condition, so that activities which note their progress meanwhile do not get in its way. Its lock
//! is a name and no version (`documents/session.rs`), which is why the steps of `cdb_coordination::lock`, which go by the
//! version, are not its own. What is kept in memory saves requests and decides nothing.

mod claim;
mod cleanup;
mod keep;
mod table;

pub(crate) use claim::Claim;
pub(crate) use table::Sessions;
