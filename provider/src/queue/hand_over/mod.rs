//! Messages that a turn of this process consumes before they are stored: the results of activities, and the
//! starts of instances.
//!
//! The caller, which acknowledges an activity or starts an instance, offers its message and waits. The batch of
//! the turn that takes it also does what storing it would have done: it deletes the activity. When that batch is
//! committed, the caller returns, and the message was never written. If no turn takes it in time, the
//! caller stores it.
//!
//! Caller and turn agree by a gate: whoever holds it decides. Locks are taken in the order turn, gate,
//! activity.

mod budget;
mod gate;

pub(crate) use budget::Budget;
pub(crate) use gate::{Answer, HandOver, Storing, Taken, Ticket, Unstored};
