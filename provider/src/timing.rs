//! The durations of this crate: what each bounds, and how they relate. A relation of constants is
//! asserted here; one that a setting may break is checked when the provider opens
//! ([`validate`](crate::CosmosDBProviderConfig::validate)).

use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const HOUR: Duration = secs(60 * 60);

// Of duroxide and of the client, by default.

/// The lock of a turn (`RuntimeOptions::orchestrator_lock_timeout`).
const TURN_LOCK: Duration = secs(5);
/// The locks of activities and sessions (`worker_lock_timeout`, `session_lock_timeout`).
const WORKER_LOCK: Duration = secs(30);
/// The longest call of the client, with its retries (`cdb_client::retry::RetryConfig`).
const CLIENT_CALL: Duration = secs(30);

// Locks.

/// A lock is renewed after this fraction of its time, by work that precedes a commit.
pub(crate) const RENEWAL: u32 = 3;
/// Large messages are read under a lock that is renewed after this fraction of its time.
pub(crate) const READ_RENEWAL: u32 = 4;
/// The longest read after which a lock is not renewed.
pub(crate) const SHORT_READ: Duration = secs(1);
/// The lock of an operator's change.
pub(crate) const OPERATOR_LOCK: Duration = secs(60);
/// The attempts of an operator's change to lock an instance, [`RETRY_PAUSE`] apart.
pub(crate) const OPERATOR_ATTEMPTS: u32 = 50;
/// The age at which an unused prelock is released.
pub(crate) const UNUSED_PRELOCK: Duration = secs(1);
/// The age of a lock or of its last renewal from which on a worker looks at the activity again
/// before it begins it: its instance may be paused.
pub(crate) const LOOK_AGAIN: Duration = secs(1);
/// The resolution of due times, by which released items of one instance are apart at least.
pub(crate) const MOMENT: Duration = ms(1);
/// The time after which a worker that had locked an activity before a pause has begun it.
pub(crate) const HAND_OUTS_END: Duration = ms(1500);
const _: () = assert!(LOOK_AGAIN.as_millis() < HAND_OUTS_END.as_millis());
/// The interval of releasing unused locks. Sends nothing when there are none.
pub(crate) const HOUSEKEEPING: Duration = ms(500);
/// Activities are prelocked for a busy worker if it is expected to be free within this time.
pub(crate) const PRELOCK_WITHIN: Duration = ms(100);
/// The time for which an activity is reserved for the runtime that wrote it. Other runtimes find
/// it afterwards, when that runtime is busy or has ended.
pub(crate) const ACTIVITY_RESERVED: Duration = ms(500);
/// The time for which a message is reserved likewise. Longer, because each message that its own
/// runtime takes in time saves the write of a lock, and turns are short.
pub(crate) const MESSAGE_RESERVED: Duration = secs(1);
/// The rest of a reservation in which the lock of a turn that is still running is stored.
pub(crate) const STORE_LOCK: Duration = ms(250);
/// The time for which another worker is assumed to hold a session, because it may release it early.
pub(crate) const SESSION_ASSUMED: Duration = secs(5);
/// The time for which an owner without sessions is not searched again, unless it claims one here.
pub(crate) const OWNER_WITHOUT_SESSIONS: Duration = secs(60);
/// The most time that a dropped provider may spend to release its locks.
pub(crate) const RELEASE_TIMEOUT: Duration = secs(5);
/// The deadline of taking over the locks of a failed member. A member that was removed by mistake
/// may have rejoined and taken new locks by then.
pub(crate) const TAKEOVER_DEADLINE: Duration = secs(10);
/// The most searches for the locks of one member, and the pause after a failed one.
pub(crate) const TAKEOVER_SEARCHES: u32 = 3;
pub(crate) const TAKEOVER_PAUSE: Duration = ms(500);

// Commits and their chunks.

/// The time for which a commit renews its lock, and for which it sends chunks without progress.
/// duroxide fails an orchestration when a commit returns an error; after a lost lock it repeats the
/// turn.
pub(crate) const COMMIT_TIME: Duration = secs(120);
/// The time for which a dispatcher waits while the commit of its turn is throttled.
pub(crate) const COMMIT_REFUSED: Duration = ms(750);
/// The longest time for which a completion waits to be consumed by a turn of this process before it is
/// stored, and the same in average commits.
pub(crate) const HAND_OVER: Duration = ms(20);
pub(crate) const HAND_OVER_COMMITS: u32 = 3;
/// The time for which completions of an orchestration are stored at once, after one of its turns came too
/// late for a completion that waited.
pub(crate) const HAND_OVER_PAUSE: Duration = secs(1);
/// The part of an average commit, one in so many, that the code of a turn may take for a completion to wait while
/// activities wait for its worker.
pub(crate) const HAND_OVER_SCARCE: u32 = 8;
/// The longest time for which a dispatcher waits while a message of its turn is being stored. The commit goes on
/// without it.
pub(crate) const HAND_OVER_GATE: Duration = secs(1);
/// The longest time for which the start of an instance waits for the commit of its first turn.
pub(crate) const START_ANSWER: Duration = secs(30);
/// The pause after a write whose retries in the client failed.
pub(crate) const RETRY_PAUSE: Duration = ms(200);
/// The first and the longest pause before the body of a transactional activity runs again.
pub(crate) const MIN_EFFECTS_PAUSE: Duration = ms(20);
pub(crate) const MAX_EFFECTS_PAUSE: Duration = secs(1);
/// How often the time of a spill moves within `orphan_age` while its chunks are written.
pub(crate) const SPILL_REFRESHES: u32 = 4;
/// The shortest `orphan_age`.
pub(crate) const MIN_ORPHAN_AGE: Duration = secs(240);

// Reads.

/// The reads of a history that lacks committed documents before it counts as damaged, and their
/// pause.
pub(crate) const STALE_HISTORY_READS: u32 = 5;
pub(crate) const STALE_HISTORY_PAUSE: Duration = ms(20);
/// The retries for a missing chunk, because another process may have written it and a lagging
/// replica may have answered, and the first pause, which doubles.
pub(crate) const STALE_CHUNK_READS: u32 = 6;
pub(crate) const STALE_CHUNK_PAUSE: Duration = ms(10);
/// The time in which a worker reads the history after it has fetched an activity.
pub(crate) const WORKER_READS_WITHIN: Duration = secs(1);

// The local queues and their polls.

/// The interval at which a fetch without long polling looks at another dispatcher's attempt.
pub(crate) const ATTEMPT_LOOK: Duration = ms(5);
/// The time for which other ready items always wait for prelocked and reserved ones.
pub(crate) const FIRST_FOR: Duration = ms(500);
/// The longest poll interval while this process is working.
pub(crate) const BUSY_POLL: Duration = ms(100);
/// The time for which a process counts as working after its last work.
pub(crate) const BUSY_FOR: Duration = ms(250);
/// The time after work in other partitions in which one of several dispatchers stays free of a slow one.
pub(crate) const OTHERS_WITHIN: Duration = secs(10);
/// The poll interval from which on the probe precedes each poll of a single partition.
pub(crate) const PROBED_FROM: Duration = ms(200);
/// The time by which a poll for new items goes back before the last poll, because clocks differ and
/// writes take time. A poll for all items finds those that become visible later.
pub(crate) const POLL_OVERLAP: Duration = ms(250);
/// The time after which an item is overdue, so that runtimes of other shares take it.
pub(crate) const OVERDUE_AFTER: Duration = secs(5);
/// The time between two probes for overdue items of other runtimes' partitions.
pub(crate) const OVERDUE_SEARCH: Duration = secs(8);
/// The time between two polls that include overdue items. Under overload the oldest items of every
/// share are overdue, and all runtimes would query for the same items.
pub(crate) const OVERDUE_POLL: Duration = secs(2);
/// The time after which the next runtime takes over overdue intents of a slot.
pub(crate) const TAKEOVER_TURN: Duration = secs(10);

// Workers.

/// The time after which busy workers are reported, because due activities wait for them.
pub(crate) const ALL_BUSY: Duration = secs(30);
/// The time for which a worker has to be free before busy workers are reported again.
pub(crate) const FREE_AGAIN: Duration = secs(10);

// Backoffs of instances.

/// The longest delay with which messages are kept in memory, so that distant timers do not fill it.
pub(crate) const MESSAGE_KEPT: Duration = secs(300);
/// The first backoff of an instance that another runtime has locked. Short, because the lock may be
/// released at any time. It doubles, and ends with the lock.
pub(crate) const LOCKED_BACKOFF: Duration = ms(100);
/// The longest backoff of an instance that another runtime has locked.
pub(crate) const MAX_LOCKED_BACKOFF: Duration = secs(1);
/// The backoff of an instance after the service did not answer.
pub(crate) const UNANSWERED_BACKOFF: Duration = secs(1);
/// The backoff of an instance whose chunks are unavailable.
pub(crate) const UNREADABLE_BACKOFF: Duration = secs(2);
/// How long before a read a message may be written that the read does not find: replicas lag, and the
/// service notes the times of writes in whole seconds.
pub(crate) const ARRIVAL_OVERLAP: Duration = secs(10);
/// The first backoff of an instance that cannot be processed. It doubles.
pub(crate) const MIN_UNFIT_BACKOFF: Duration = secs(1);
/// The longest backoff of an instance that cannot be processed. A newer message ends it.
pub(crate) const MAX_UNFIT_BACKOFF: Duration = secs(60);

// Backoffs of activities.

/// The longest delay with which activities are kept in memory.
pub(crate) const ACTIVITY_KEPT: Duration = secs(300);
/// The backoff of an activity that cannot be locked, although the service answered.
pub(crate) const ACTIVITY_UNFIT: Duration = secs(10);
/// The backoff of an activity after the service did not answer.
pub(crate) const ACTIVITY_UNANSWERED: Duration = ms(100);
/// The backoff after an attempt at an undecodable activity.
pub(crate) const ACTIVITY_UNDECODABLE: Duration = secs(1);

// Messages to other instances.

/// The deadline of a request with few operations to a partition. Intents for other partitions wait
/// for the end of the round.
pub(crate) const DELIVERY_DEADLINE: Duration = secs(5);
/// The additional time for each operation, so that a throttled container finishes a large bulk.
pub(crate) const DELIVERY_PER_OPERATION: Duration = ms(10);
/// The first and the longest backoff of a target whose partition did not answer.
pub(crate) const MIN_TARGET_BACKOFF: Duration = secs(1);
pub(crate) const MAX_TARGET_BACKOFF: Duration = secs(30);
/// The time for which a delivery is remembered. An intent is deleted right after its delivery; the
/// trace has to outlive failed deletions.
pub(crate) const REMEMBERED: Duration = secs(24 * 60 * 60);
/// The age of a commit up to which its intents are redelivered. Later, a delivery could repeat a
/// message whose trace is gone.
pub(crate) const REDELIVERED: Duration = secs(23 * 60 * 60);

// Limits of activities.

/// The longest wait for the answer to a request about a limited key. Then the request counts as lost.
pub(crate) const LIMITS_ANSWER: Duration = secs(2);
/// The longest wait for the return of permits at a shutdown. Others find out later what was not returned.
pub(crate) const PERMITS_RETURNED: Duration = secs(1);
/// The time between two looks at the leases of others that hold permits of used-up keys, and between two reports of
/// the metrics of limited keys.
pub(crate) const LIMITS_LOOK: Duration = secs(5);
/// The time between two searches for a change of the limits. Each is a part of a probe.
pub(crate) const LIMITS_SEARCH: Duration = secs(5);

// Upkeep.

/// The shortest and the longest time between two searches for what retention deletes.
pub(crate) const MIN_RETENTION_INTERVAL: Duration = secs(1);
pub(crate) const MAX_RETENTION_INTERVAL: Duration = HOUR;
/// The longest time for which an answer of the metrics serves further calls.
pub(crate) const METRICS_AGE: Duration = HOUR;
/// The age at which the span of a turn counts as abandoned.
pub(crate) const SPAN_AGE: Duration = HOUR;
/// The longest timeout of a caller, so that its end is a time.
pub(crate) const LONGEST_TIMEOUT: Duration = secs(365 * 24 * 60 * 60);

// Answers about the work that waits (`observe`).

/// The age from which on due work waits for a process: idle ones poll every [`DEFAULT_MAX_POLL`].
pub(crate) const UNSERVED: Duration = secs(5);
/// The age from which on due work is overdue: more processes, or a repair, are needed.
pub(crate) const OVERDUE_WORK: Duration = secs(60);
/// The longest time for which duroxide hides a start whose orchestration it does not know
/// (`UnregisteredBackoffConfig`).
pub(crate) const HIDDEN_START: Duration = secs(60);
/// The rest of a lock that is unusually long: runtimes renew locks within seconds.
pub(crate) const LONG_LOCK: Duration = secs(10 * 60);
/// The shortest time after which an overview counts all ended instances again. The charge of that count grows with
/// their number, so each instance adds a millisecond.
pub(crate) const RECOUNT: Duration = secs(10 * 60);
/// The age at which a count of ended instances is kept: a commit can be stored a little after the time that it states.
pub(crate) const SETTLED: Duration = secs(60);

// Defaults of the settings.

pub(crate) const DEFAULT_RECONCILER_INTERVAL: Duration = secs(2);
pub(crate) const DEFAULT_RECONCILER_AGE: Duration = secs(2);
pub(crate) const DEFAULT_MIN_POLL: Duration = ms(50);
pub(crate) const DEFAULT_MAX_POLL: Duration = ms(1250);
pub(crate) const DEFAULT_ORPHAN_AGE: Duration = secs(10 * 60);
pub(crate) const DEFAULT_UNCLAIMED_AGE: Duration = secs(24 * 60 * 60);

/// Returns whether `time`, `times` over, is at most `most`.
const fn fits(time: Duration, times: u32, most: Duration) -> bool {
    time.as_millis() * times as u128 <= most.as_millis()
}

const fn sum(first: Duration, second: Duration) -> Duration {
    first.saturating_add(second)
}

// A lock survives one renewal that is lost.
const _: () = assert!(RENEWAL >= 3 && READ_RENEWAL >= 3);
// Retries of a write, and the wait for a lagging replica, need no renewal of their own.
const _: () = assert!(fits(RETRY_PAUSE, 3 * RENEWAL, TURN_LOCK));
const _: () = assert!(fits(STALE_CHUNK_PAUSE, 1 << STALE_CHUNK_READS, SHORT_READ));
const _: () = assert!(fits(STALE_HISTORY_PAUSE, STALE_HISTORY_READS, SHORT_READ));
const _: () = assert!(fits(SHORT_READ, RENEWAL, TURN_LOCK));
// An unused prelock and a reservation end before the lock would, so other runtimes gain by them.
const _: () = assert!(fits(HOUSEKEEPING, 1, UNUSED_PRELOCK));
const _: () = assert!(fits(sum(UNUSED_PRELOCK, HOUSEKEEPING), 2, TURN_LOCK));
const _: () = assert!(fits(ACTIVITY_RESERVED, 1, UNUSED_PRELOCK));
const _: () = assert!(fits(MESSAGE_RESERVED, 1, UNUSED_PRELOCK));
const _: () = assert!(fits(PRELOCK_WITHIN, 1, UNUSED_PRELOCK));
// A turn of reserved messages has as much time without a stored lock as the write of the lock.
const _: () = assert!(fits(STORE_LOCK, 2, MESSAGE_RESERVED));
// An operator's change outlasts the lock of a crashed runtime.
const _: () = assert!(fits(
    TURN_LOCK,
    2,
    RETRY_PAUSE.saturating_mul(OPERATOR_ATTEMPTS)
));
// A lock that is released late has expired anyway.
const _: () = assert!(fits(RELEASE_TIMEOUT, 1, TURN_LOCK));
const _: () = assert!(fits(TAKEOVER_DEADLINE, 1, WORKER_LOCK));
const _: () = assert!(fits(TAKEOVER_PAUSE, TAKEOVER_SEARCHES, TAKEOVER_DEADLINE));
// A session that was released early is found before it would have expired.
const _: () = assert!(fits(SESSION_ASSUMED, RENEWAL, WORKER_LOCK));
// Dispatchers that wait have the next poll within the interval of an idle process.
const _: () = assert!(fits(BUSY_POLL, 1, DEFAULT_MAX_POLL));
const _: () = assert!(fits(DEFAULT_MIN_POLL, 1, BUSY_POLL));
// Other items wait less for prelocked and reserved ones than an idle process waits for a poll.
const _: () = assert!(fits(FIRST_FOR, 1, DEFAULT_MAX_POLL));
// The owner of a share has several polls before others take its work.
const _: () = assert!(fits(DEFAULT_MAX_POLL, 4, OVERDUE_AFTER));
const _: () = assert!(fits(OVERDUE_POLL, 1, OVERDUE_AFTER));
// Overdue work of other shares is found within the bound of docs/liveness.md, before the lock of a
// dead worker ends.
const _: () = assert!(fits(
    sum(sum(OVERDUE_AFTER, OVERDUE_SEARCH), DEFAULT_MAX_POLL),
    2,
    WORKER_LOCK
));
// A lock that is released early is seen long before it would have expired.
const _: () = assert!(fits(LOCKED_BACKOFF, 10, MAX_LOCKED_BACKOFF));
const _: () = assert!(fits(MAX_LOCKED_BACKOFF, 5, TURN_LOCK));
const _: () = assert!(fits(MAX_LOCKED_BACKOFF, 1, DEFAULT_MAX_POLL));
// A failed attempt is repeated within the bound for work of other shares.
const _: () = assert!(fits(UNANSWERED_BACKOFF, 1, OVERDUE_AFTER));
const _: () = assert!(fits(UNREADABLE_BACKOFF, 1, OVERDUE_AFTER));
const _: () = assert!(fits(MIN_UNFIT_BACKOFF, 1, MAX_UNFIT_BACKOFF));
// A commit outlasts a call of the client that fails, and the retry after it.
const _: () = assert!(fits(sum(CLIENT_CALL, RETRY_PAUSE), 2, COMMIT_TIME));
const _: () = assert!(fits(MIN_EFFECTS_PAUSE, 1, MAX_EFFECTS_PAUSE));
// The spill of a running commit is never swept: its age is at most that of a refresh that is due,
// the calls that delay the refresh, and the commit that follows.
const _: () = assert!(fits(
    sum(CLIENT_CALL.saturating_mul(2), COMMIT_TIME),
    SPILL_REFRESHES,
    MIN_ORPHAN_AGE.saturating_mul(SPILL_REFRESHES - 1)
));
const _: () = assert!(fits(MIN_ORPHAN_AGE, 1, DEFAULT_ORPHAN_AGE));
// An idle process has had several polls before due work counts as waiting.
const _: () = assert!(fits(DEFAULT_MAX_POLL, 4, UNSERVED));
const _: () = assert!(fits(WORKER_LOCK, 2, OVERDUE_WORK));
const _: () = assert!(fits(WORKER_LOCK, 10, LONG_LOCK));
const _: () = assert!(fits(CLIENT_CALL, 2, SETTLED) && fits(SETTLED, 2, RECOUNT));
// A silent partition takes less of the rounds' time than its backoff leaves to the others.
const _: () = assert!(fits(DELIVERY_DEADLINE, 2, MAX_TARGET_BACKOFF));
const _: () = assert!(fits(MIN_TARGET_BACKOFF, 1, MAX_TARGET_BACKOFF));
// The last redelivery ends while the trace of the first one exists.
const _: () = assert!(fits(sum(REDELIVERED, DELIVERY_DEADLINE), 1, REMEMBERED));
// A message that overtakes the start of its instance waits as long as the start is redelivered.
const _: () = assert!(fits(REDELIVERED, 1, DEFAULT_UNCLAIMED_AGE));
const _: () = assert!(fits(MIN_RETENTION_INTERVAL, 1, MAX_RETENTION_INTERVAL));

#[cfg(test)]
mod tests {
    use cdb_client::retry::RetryConfig;
    use duroxide::runtime::RuntimeOptions;

    use super::*;

    #[test]
    fn the_defaults_of_duroxide_and_of_the_client_are_as_stated() {
        let options = RuntimeOptions::default();
        assert_eq!(options.orchestrator_lock_timeout, TURN_LOCK);
        assert_eq!(options.worker_lock_timeout, WORKER_LOCK);
        assert_eq!(options.session_lock_timeout, WORKER_LOCK);
        assert_eq!(RetryConfig::default().deadline, CLIENT_CALL);
    }
}
