//! Completions that a turn of this process consumes before they are stored.
//!
//! The batch of the turn deletes the activity, as its own end would, and the acknowledgement returns
//! when that batch is committed. So the message between the two is never written. If no turn takes the
//! completion in time, the acknowledgement stores it.
//!
//! Acknowledgement and turn agree by a gate: whoever holds it decides. Locks are taken in the order
//! turn, gate, activity.

mod budget;
mod gate;

pub(crate) use budget::Budget;
pub(crate) use gate::{Answer, HandOver, Storing, Taken, Ticket, Unstored};
