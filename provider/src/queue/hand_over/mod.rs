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
//!
//! A message is handed over if all of this holds, and stored at once otherwise:
//!
//! - The instance is cached here or its turn runs here, and is not paused, held or full; for a start,
//!   nothing is known of the id.
//! - Nothing else waits for a dispatcher, and one waits or dispatchers outnumber such messages. For a
//!   start: a dispatcher waits and nothing else is due.
//! - No activity waits for a worker; or only those of the same instance, a dispatcher waits, and the
//!   code of its turns takes at most an eighth of a commit.
//! - The turns of the orchestration take less than the wait, by their average.
//! - It is the first attempt of the activity, in one document, without effects, and nothing waits for
//!   its permits.
//! - The activity was locked or renewed within the last second; otherwise a read of at most 20 ms shows
//!   that it is as it was left, because its instance may be paused or deleted.
//! - A quarter of the activity's lock is left.
//!
//! If no turn takes the message within three average commits, at most 20 ms, it is stored then, as are
//! those of its orchestration for a second. When a turn is lost, abandoned or given up, the call stores
//! the message, and after an abandoned turn with its delay. A message that was stored while its turn ran
//! is deleted by the commit. The commit takes the gates after its chunks are written, and gives them up
//! while its partition refuses it, so that activities are renewed. If a message is being stored for more
//! than a second, the commit goes on without its dispatcher.

mod budget;
mod gate;

pub(crate) use budget::Budget;
pub(crate) use gate::{Answer, HandOver, Storing, Taken, Ticket, Unstored};
