//! The durations of the protocol. The figures of `tests/judges/limits` decided on them.

use std::time::Duration;

/// The pause after a request about a limited key that the service could not serve.
pub(super) const RETRY: Duration = Duration::from_millis(100);
/// The items of other processes cause requests only this long after they are due, and a part of the next duration.
pub(super) const ASKED_AFTER: Duration = Duration::from_millis(1_500);
/// The part of it is different for each item and process.
pub(super) const ASKED_WITHIN: Duration = Duration::from_secs(1);
/// The time after which an item stands in line: those that hold permits would have run it if they could.
pub(super) const AGED: Duration = Duration::from_secs(10);
/// The time by which the items of other processes are out of order, so that few processes try the same one.
pub(super) const SCATTERED: Duration = Duration::from_secs(2);
/// The time after which an item keeps the permits of its earlier keys.
pub(super) const KEEPS_AFTER: Duration = Duration::from_secs(1);

/// The shortest time between two looks at a limit that is used up.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// The same for each place of a process that stands in line.
pub(super) const LOOK_IN_LINE: Duration = Duration::from_millis(300);
/// The longest time between two looks, for items that other processes can run: their permits come to the items, so
/// looks rarely find any.
pub(super) const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// The time after which the holder of an unused permit of a used-up limit looks for others in line.
pub(super) const IDLE_LOOK: Duration = Duration::from_millis(100);
/// The time for which an unused permit is kept if half of all are free.
pub(super) const KEPT_OF_MANY: Duration = Duration::from_secs(5);
/// The time for which an unused permit is kept if others are free.
pub(super) const KEPT_OF_SOME: Duration = Duration::from_secs(1);
/// The time for which an unused permit of a used-up limit is kept.
pub(super) const KEPT_OF_NONE: Duration = Duration::from_millis(400);
/// The time from an end to a start without its requests, when a permit moves to another process.
pub(super) const HAND_OVER: Duration = Duration::from_millis(130);
/// The item of another process is older only beyond this difference.
pub(super) const OLDER: Duration = Duration::from_millis(500);
/// The time after which a refused patch is forestalled, if no other patch has succeeded before.
pub(super) const FORESTALLED_AFTER: Duration = Duration::from_secs(20);
/// The time after which permits are written again: a document that nothing writes is deleted after an hour.
pub(super) const KEPT_ALIVE: Duration = Duration::from_secs(20 * 60);

/// The starts that a process reserves at once, in time of the rate and besides the round trips.
pub(super) const AHEAD: Duration = Duration::from_millis(500);
/// The time for which an unused start remains usable, and with it the burst of a rate: `t` seconds have at most r·t + r·1 s + 1
/// starts.
pub(super) const LAPSE: Duration = Duration::from_secs(1);
/// The part of it in which an item may be chosen: the rest is for the request that locks the item.
pub(super) const CHOSEN_WITHIN: Duration = Duration::from_millis(600);

/// The term of a lease beyond the longest lock of an item.
pub(super) const LEASE_TERM: Duration = Duration::from_secs(15);
/// The lock of an item as long as no other is known.
pub(super) const ITEM_LOCK: Duration = Duration::from_secs(30);
/// The time between two renewals of a lease.
pub(super) const LEASE_RENEWED: Duration = Duration::from_secs(10);
/// The pause after a renewal without an answer.
pub(super) const LEASE_RETRIED: Duration = Duration::from_millis(500);
/// The rest of a lease in which nothing starts, and the time after its end from which on others may end it.
pub(super) const LEASE_MARGIN: Duration = Duration::from_secs(2);
