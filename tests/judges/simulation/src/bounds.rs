//! How long due work may wait, and how long handed-out work may take to end or to be handed out
//! again. Only the time of faults that can delay an item does not count.

use std::time::Duration;

use crate::node::{Pace, SLOW};

/// B of the default settings, in seconds: the failure of a member is noticed (three heartbeats of 3 s),
/// an overdue item is 5 s old, the search for overdue items comes after at most 8 s, the runtime
/// whose turn it is to take the item over changes after 10 s, and a partition that has recovered
/// may still have a backoff of 30 s. The longest pause between two polls is 1.25 s.
const HANDED_OUT: u64 = 9 + 5 + 8 + 10 + 30 + 2;

/// B of ordered work, in seconds: a lease of 15 s ends after the failure of its holder, the
/// partition is adopted after two leases or handed over in 5 s, and the next search and sweep find
/// the message (10 s and 60 s in the simulation). A failed message waits up to 75 s. A partition that
/// another coordinator should hold pauses for a lease.
const MESSAGE_HANDED_OUT: u64 = 15 + 30 + 5 + 10 + 60 + 75 + 15;

/// The default lock of a turn, in seconds.
const TURN_LOCK: u64 = 5;

/// The longest activity of the workloads, in seconds: all workers of the only healthy node may be
/// busy for as long.
pub(crate) const LONGEST_ACTIVITY: u64 = 100;

/// The default lock of a session, in seconds. A session waits for the lock of its last worker.
const SESSION_LOCK: u64 = 30;

/// B and L of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// B of turns and of messages between instances.
    pub(crate) handed_out: Duration,
    /// B + L of turns, from the time that their oldest message is due to their commit.
    pub(crate) turn_ended: Duration,
    /// B of activities, from the end of their last lock, so L too: an activity without a lock
    /// waits for a worker.
    pub(crate) activity_handed_out: Duration,
    /// B of messages of ordered work and of the inbox.
    pub(crate) message_handed_out: Duration,
}

impl Bounds {
    /// Returns the bounds of nodes with this pace. With a slow one, polls and heartbeats come every
    /// ten seconds, and leases of ordered work last a minute.
    pub(crate) fn of(pace: Pace) -> Self {
        let seconds = Duration::from_secs;
        let (slower, leases) = match pace {
            Pace::Default => (Duration::ZERO, Duration::ZERO),
            Pace::Slow => (SLOW * 4, SLOW * 6 * 3),
        };
        let handed_out = seconds(HANDED_OUT) + slower;
        Self {
            handed_out,
            turn_ended: handed_out * 2 + seconds(TURN_LOCK),
            activity_handed_out: handed_out + seconds(LONGEST_ACTIVITY + SESSION_LOCK),
            message_handed_out: seconds(MESSAGE_HANDED_OUT) + slower + leases,
        }
    }
}
