//! Every duration of this crate, and how they must relate.
//!
//! The relations of the defaults and the constants are checked when this crate is compiled, those
//! of configured values when a coordinator opens.

use std::time::Duration;

use cdb_coordination::retry::RetryPolicy;

/// The default of [`WorkConfig::lease`](crate::WorkConfig::lease).
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// A lease is renewed when less than this part of it is left. A renewal waits for its answer for
/// the same time.
pub(crate) const RENEWED_IN: u32 = 3;

/// A renewal without an answer is sent again after this part of the lease.
pub(crate) const RENEWED_AGAIN_IN: u32 = 6;

/// The default of [`WorkConfig::upkeep`](crate::WorkConfig::upkeep).
pub(crate) const UPKEEP: Duration = Duration::from_secs(1);

/// How long a partition stays adopted, in leases. Then its own coordinator can take it.
pub(crate) const ADOPTION: u32 = 20;

/// How many intervals of upkeep its own coordinator has for that.
pub(crate) const RETURN: u32 = 3;

/// The default of [`WorkConfig::claim_timeout`](crate::WorkConfig::claim_timeout).
pub(crate) const CLAIM_TIMEOUT: Duration = Duration::from_secs(300);

/// The default of [`WorkConfig::drain`](crate::WorkConfig::drain).
pub(crate) const DRAIN: Duration = Duration::from_secs(5);

/// The interval of checking whether the claim of a running handler is still held.
pub(crate) const CLAIM_CHECK: Duration = Duration::from_secs(1);

/// Messages behind one that is claimed for longer may leave the memory.
pub(crate) const SLOW_HANDLER: Duration = Duration::from_secs(1);

/// How long a message that may have ended its last process is handed out alone among such messages.
/// A message that ends processes mostly does so soon, and a handler may go on for hours.
pub(crate) const SUSPECT_ALONE: Duration = Duration::from_secs(30);

/// How long one call of a run waits for messages. A run stops without waiting for it.
pub(crate) const CLAIM_WAIT: Duration = Duration::from_secs(30);

/// How long a claim waits when no known message is due. A search ends the wait earlier.
pub(crate) const NOTHING_DUE: Duration = Duration::from_secs(3600);

/// The least wait for a message that is due, so that a claim yields.
pub(crate) const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The wait after the start of an attempt could not be stored.
pub(crate) const UNSTARTED_PAUSE: Duration = Duration::from_millis(100);

/// The first wait after a search without messages. It doubles up to the longest.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The default of [`WorkConfig::longest_pause`](crate::WorkConfig::longest_pause).
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How far a search goes back before the newest known message, because clocks differ and requests
/// overtake each other.
pub(crate) const OVERLAP: Duration = Duration::from_secs(1);

/// The default of [`WorkConfig::sweep`](crate::WorkConfig::sweep).
pub(crate) const SWEEP: Duration = Duration::from_secs(10);

/// How many intervals a sweep looks ahead.
pub(crate) const SWEPT_AHEAD: u32 = 2;

/// The default of [`IntervalConfig::every`](crate::IntervalConfig::every).
pub(crate) const FLUSH: Duration = Duration::from_millis(200);

/// The interval at which a run writes results by default.
pub(crate) const RUN_FLUSH: Duration = Duration::from_millis(100);

/// The default of [`IntervalConfig::last_flush`](crate::IntervalConfig::last_flush).
pub(crate) const LAST_FLUSH: Duration = Duration::from_secs(30);

/// The longest wait between two attempts at the last flush.
pub(crate) const LAST_FLUSH_PAUSE: Duration = Duration::from_secs(1);

/// The wait after other writers were faster at every plan of a flush.
pub(crate) const LOST_RACES_PAUSE: Duration = Duration::from_millis(100);

/// The wait after the broker failed.
pub(crate) const BROKER_PAUSE: Duration = Duration::from_secs(1);

/// The pause between two attempts to store the settings of a container.
pub(crate) const AGREEMENT_PAUSE: Duration = Duration::from_millis(300);

/// The default of [`WorkConfig::remember`](crate::WorkConfig::remember).
pub(crate) const REMEMBER: Duration = Duration::from_secs(7 * 24 * 3600);

/// The default of [`WorkConfig::forget`](crate::WorkConfig::forget).
pub(crate) const FORGET: Duration = Duration::from_secs(3600);

/// The longest duration that is added to a time. Without a limit the sum may not be representable:
/// an `Instant` overflows, and JSON numbers are exact only up to 2^53.
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The time in which a renewal has an answer, or counts as failed.
pub(crate) fn renewal_timeout(lease: Duration) -> Duration {
    lease / RENEWED_IN
}

const fn fits(shorter: Duration, times: u32, longer: Duration) -> bool {
    shorter.as_millis() * times as u128 <= longer.as_millis()
}

// A renewal is sent at least twice before the lease ends, so one lost answer costs no partition.
const _: () = assert!(RENEWED_AGAIN_IN >= 2 * RENEWED_IN);
// The last third of a lease has an upkeep, so a lease never ends without an attempt to renew it.
// Three intervals of upkeep are at most a lease: an adopted partition returns before the next search.
const _: () = assert!(fits(UPKEEP, RENEWED_IN, LEASE) && RETURN <= RENEWED_IN);
// An adoption lasts longer than the two searches before it, so partitions do not wander.
const _: () = assert!(ADOPTION > 2);
// A handler whose claim is void is cancelled long before a lease taken since would end.
const _: () = assert!(fits(CLAIM_CHECK, 3, LEASE));
// At a hand-over, a slow handler is noticed before its claim times out: the other streams continue.
const _: () = assert!(fits(DRAIN, 1, CLAIM_TIMEOUT));
// Messages behind a slow handler leave the memory within two waits between searches.
const _: () = assert!(fits(SLOW_HANDLER, 1, LONGEST_PAUSE));
// Sweeps begin with a search, so the wait between searches delays no sweep by more than itself.
const _: () = assert!(fits(FIRST_PAUSE, 1, LONGEST_PAUSE) && fits(LONGEST_PAUSE, 1, SWEEP));
// A late message is found by a search or by a sweep.
const _: () = assert!(fits(OVERLAP, 1, SWEEP));
// A message that becomes due between two sweeps is in memory before it is due.
const _: () = assert!(SWEPT_AHEAD >= 2);
// A suspect is alone for shorter than its claim lasts, so it delays others less than a time-out.
const _: () = assert!(fits(SUSPECT_ALONE, 10, CLAIM_TIMEOUT));
// A call that waits for messages outlives the longest wait between searches.
const _: () = assert!(fits(LONGEST_PAUSE, 1, CLAIM_WAIT) && fits(CLAIM_WAIT, 1, NOTHING_DUE));
// A refused start is tried again within the wait between searches, and a lost race within a lease.
const _: () = assert!(fits(UNSTARTED_PAUSE, 1, LONGEST_PAUSE));
const _: () = assert!(fits(LOST_RACES_PAUSE, 3, LEASE) && fits(LEAST_WAIT, 1, FIRST_PAUSE));
// Results are written well within a lease: a crash repeats little work.
const _: () = assert!(fits(RUN_FLUSH, 3, LEASE) && fits(FLUSH, 3, LEASE));
// The last flush has time for several attempts.
const _: () = assert!(fits(LAST_FLUSH_PAUSE, 3, LAST_FLUSH));
// A coordinator that opens agrees on the settings well before its lease would end.
const _: () = assert!(fits(AGREEMENT_PAUSE, 9, LEASE));
// A failed broker is asked again before a claim on a message for it times out.
const _: () = assert!(fits(BROKER_PAUSE, 1, CLAIM_TIMEOUT));
// Duplicates are detected for longer than a message waits for its next attempt, and idle streams are
// deleted soon after that.
const _: () =
    assert!(fits(RetryPolicy::DEFAULT.longest_delay, 1, REMEMBER) && fits(FORGET, 1, REMEMBER));
const _: () = assert!(fits(REMEMBER, 1, YEAR));
