//! Lagging replicas: a read without a session token may be answered from an older state.
//!
//! On the service a write is acknowledged by a majority of the replicas of a partition, and a read
//! with Session consistency is answered by any of them
//! (<https://learn.microsoft.com/azure/cosmos-db/consistency-levels>). A read from a lagging replica
//! sees the state of its partitions at an older LSN. For that the store keeps the versions of
//! documents that recent writes replaced or deleted; this state knows the recent writes, and chooses
//! the LSN of a read. All of it is off by default.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::session;
use crate::fault::Random;
use crate::protocol::ServiceError;
use crate::store::{self, Container, PhysicalRange, StoredDocument};
use crate::time::{Clock, millis};

/// Maximum number of recent writes. Older writes have reached all replicas.
const MOST_WRITES: usize = 10_000;
/// Writes between two removals of old versions.
const REMOVAL: usize = 256;
/// The stream of random numbers; faults count from 0.
const STREAM: u64 = u64::MAX - 1;

/// How far a replica is behind. A read with a session token still sees at least its LSN.
///
/// ```
/// use std::time::Duration;
/// use cdb_emulator::{Emulator, ReplicaLag};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// // Every fourth read misses the writes of the last 200 ms, but at most three of a partition.
/// let lag = ReplicaLag::time(Duration::from_millis(200)).at_most(3).with_probability(0.25);
/// let emulator = Emulator::builder().replica_lag(lag).start().await?;
/// emulator.change(|settings| settings.replica_lag(ReplicaLag::writes(1)))?; // every read misses the last write
/// emulator.change(|settings| settings.replica_lag(None))?;
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplicaLag {
    /// The number of writes to a physical partition that the replica lacks; unlimited when `None`.
    #[serde(default)]
    pub writes: Option<u32>,
    /// The age of the writes that the replica lacks; unlimited when `None`. In JSON `timeMs`.
    #[serde(default, rename = "timeMs", with = "millis::optional")]
    pub time: Option<Duration>,
    /// The probability that a lagging replica answers a read, 0 to 1.
    #[serde(default = "certain")]
    pub probability: f64,
}

fn certain() -> f64 {
    1.0
}

impl ReplicaLag {
    /// Returns a replica that lacks the last writes to each partition, until more writes follow.
    pub fn writes(count: u32) -> Self {
        Self {
            writes: Some(count),
            time: None,
            probability: certain(),
        }
    }

    /// Returns a replica that lacks the writes of the last `time`.
    pub fn time(time: Duration) -> Self {
        Self {
            writes: None,
            time: Some(time),
            probability: certain(),
        }
    }

    /// Limits the number of writes to a partition that the replica lacks.
    #[must_use]
    pub fn at_most(mut self, writes: u32) -> Self {
        self.writes = Some(writes);
        self
    }

    /// Lets a lagging replica answer only this share of reads, the others are up to date.
    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Fails with the reason if the lag is invalid.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.writes.is_none() && self.time.is_none() {
            return Err("a lag needs `writes`, `timeMs` or both".to_owned());
        }
        if !(0.0..=1.0).contains(&self.probability) {
            let given = self.probability;
            return Err(format!(
                "a probability is between 0 and 1, but this one is {given}"
            ));
        }
        Ok(())
    }
}

/// The replicas of all partitions.
#[derive(Debug)]
pub(crate) struct Replicas {
    clock: Clock,
    /// Whether a replica lags. Writes are recorded only then.
    lagging: AtomicBool,
    /// Whether the gateway ignores the header of the read consistency strategy.
    ignores_strategy: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lag: Option<ReplicaLag>,
    random: Random,
    /// Recent writes, the newest last.
    writes: VecDeque<Write>,
    /// Writes since the last removal of old versions.
    recorded: usize,
}

#[derive(Debug)]
struct Write {
    lsn: i64,
    at: Duration,
    container: i64,
    epk: String,
}

/// Two writes to one document or batch are equal.
impl PartialEq for Write {
    fn eq(&self, other: &Self) -> bool {
        (self.lsn, self.container, &self.epk) == (other.lsn, other.container, &other.epk)
    }
}

/// The state that a read sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The LSN of the lagging replica; `None` for the newest state.
    pub(crate) snapshot: Option<i64>,
    /// Whether the read asks for the latest committed state. It costs twice as much.
    pub(crate) is_quorum: bool,
}

impl Replicas {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            lagging: AtomicBool::new(false),
            ignores_strategy: AtomicBool::new(false),
            state: Mutex::new(State {
                lag: None,
                random: Random::new(0, STREAM),
                writes: VecDeque::new(),
                recorded: 0,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restarts the random numbers from a seed.
    pub(crate) fn seed(&self, seed: u64) {
        self.state().random = Random::new(seed, STREAM);
    }

    /// Sets the lag, and forgets the writes before.
    pub(crate) fn set_lag(
        &self,
        connection: &store::Connection,
        lag: Option<ReplicaLag>,
    ) -> Result<(), ServiceError> {
        store::reset_versions(connection)?;
        let mut state = self.state();
        state.lag = lag;
        state.writes.clear();
        self.lagging.store(lag.is_some(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn lag(&self) -> Option<ReplicaLag> {
        self.state().lag
    }

    /// Lets the gateway honour or ignore the header of the read consistency strategy.
    pub(crate) fn ignore_strategy(&self, ignored: bool) {
        self.ignores_strategy.store(ignored, Ordering::Relaxed);
    }

    pub(crate) fn ignores_strategy(&self) -> bool {
        self.ignores_strategy.load(Ordering::Relaxed)
    }

    /// Records a write to a document before it is executed, and keeps the version that it replaces.
    pub(crate) fn record(
        &self,
        connection: &store::Connection,
        container: &Container,
        document: &StoredDocument,
        lsn: i64,
    ) -> Result<(), ServiceError> {
        if !self.lagging.load(Ordering::Acquire) {
            return Ok(());
        }
        container.keep_version(connection, &document.pk, &document.id, lsn)?;
        let oldest = self.state().push(Write {
            lsn,
            at: self.clock.monotonic(),
            container: container.number,
            epk: document.epk.clone(),
        });
        match oldest {
            Some(oldest) => store::remove_versions(connection, oldest),
            None => Ok(()),
        }
    }

    /// Chooses the state that a read of physical partitions sees; `last` is the newest LSN.
    pub(crate) fn view(
        &self,
        headers: &HeaderMap,
        container: &Container,
        ranges: &[&PhysicalRange],
        last: i64,
    ) -> Result<View, ServiceError> {
        let is_quorum = session::is_latest_committed(headers) && !self.ignores_strategy();
        if is_quorum || !self.lagging.load(Ordering::Acquire) {
            return Ok(View {
                snapshot: None,
                is_quorum,
            });
        }
        let seen = session::seen_of(headers, ranges)?;
        let now = self.clock.monotonic();
        let reached = self.state().reached(container.number, ranges, last, now);
        // A replica that has not reached the session token does not answer.
        let snapshot = reached.map(|lsn| lsn.max(seen)).filter(|lsn| *lsn < last);
        Ok(View {
            snapshot,
            is_quorum,
        })
    }
}

impl State {
    /// Adds a write. Returns the oldest LSN whose replaced versions are still needed, if it is time
    /// to remove older ones.
    fn push(&mut self, write: Write) -> Option<i64> {
        let (newest, now) = (write.lsn, write.at);
        let is_newer = |last: &Write| last.lsn >= write.lsn && *last != write;
        // A write with an equal or higher LSN was rolled back.
        while self.writes.back().is_some_and(is_newer) {
            self.writes.pop_back();
        }
        // The writes of a batch are one write.
        if self.writes.back() == Some(&write) {
            return None;
        }
        self.writes.push_back(write);
        self.recorded += 1;
        if self.recorded < REMOVAL {
            return None;
        }
        self.recorded = 0;
        while self.writes.len() > MOST_WRITES
            || self
                .writes
                .front()
                .is_some_and(|write| self.has_arrived(write, now))
        {
            self.writes.pop_front();
        }
        Some(self.writes.front().map_or(newest, |oldest| oldest.lsn))
    }

    /// Returns whether a write is old enough to have reached all replicas.
    fn has_arrived(&self, write: &Write, now: Duration) -> bool {
        let time = self.lag.and_then(|lag| lag.time);
        time.is_some_and(|time| now.saturating_sub(write.at) >= time)
    }

    /// Draws whether a lagging replica answers, and returns the last LSN that it has; `None` for a
    /// replica that is up to date. `last` is the newest LSN.
    fn reached(
        &mut self,
        container: i64,
        ranges: &[&PhysicalRange],
        last: i64,
        now: Duration,
    ) -> Option<i64> {
        let lag = self.lag?;
        if self.random.next() >= lag.probability {
            return None;
        }
        let most = lag.writes.and_then(|writes| usize::try_from(writes).ok());
        let is_here = |write: &&Write| {
            // A write after the last one was rolled back, or is not visible yet.
            write.lsn <= last
                && write.container == container
                && ranges.iter().any(|range| range.holds(&write.epk))
        };
        let missing = self.writes.iter().rev().filter(is_here);
        let missing = missing.take_while(|write| !self.has_arrived(write, now));
        let oldest = missing.take(most.unwrap_or(usize::MAX)).last()?;
        Some(oldest.lsn - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(lag: ReplicaLag) -> State {
        State {
            lag: Some(lag),
            random: Random::new(0, STREAM),
            writes: VecDeque::new(),
            recorded: 0,
        }
    }

    fn write(lsn: i64, epk: &str) -> Write {
        Write {
            lsn,
            at: Duration::ZERO,
            container: 1,
            epk: epk.to_owned(),
        }
    }

    #[test]
    fn the_number_of_recent_writes_is_limited() {
        let mut state = state(ReplicaLag::writes(1));
        let removals: Vec<i64> = (1..=20_480)
            .filter_map(|lsn| state.push(write(lsn, "00")))
            .collect();
        assert_eq!(removals.len(), 80);
        assert_eq!((removals[0], removals[79]), (1, 10_481));
        assert_eq!(state.writes.len(), MOST_WRITES);
    }

    #[test]
    fn writes_that_have_reached_all_replicas_are_forgotten() {
        let mut state = state(ReplicaLag::time(Duration::ZERO));
        let removals: Vec<i64> = (1..=256)
            .filter_map(|lsn| state.push(write(lsn, "00")))
            .collect();
        assert_eq!(removals, [256]);
        assert!(state.writes.is_empty());
    }

    #[test]
    fn a_write_that_was_rolled_back_is_forgotten() {
        let mut state = state(ReplicaLag::writes(1));
        for (lsn, epk) in [(1, "00"), (2, "00"), (2, "11"), (2, "11"), (3, "00")] {
            state.push(write(lsn, epk));
        }
        let left: Vec<(i64, &str)> = state
            .writes
            .iter()
            .map(|write| (write.lsn, &*write.epk))
            .collect();
        assert_eq!(left, [(1, "00"), (2, "11"), (3, "00")]);
    }
}
