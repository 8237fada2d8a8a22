//! What is known of the partitions of a container, and what work does with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::circuit::{Behind, Class, FIRST, Known, LEAST_SLOW, SEARCH, SLOWER, WORK};
use super::endpoints::RangeEndpoints;
use super::stall::{note_stall, refused, work_of_task};
use super::unanswered::UnansweredId;
use crate::partitions::ranges::{PhysicalPartitionId, RangeMap};

/// Which physical partitions of a container answer.
///
/// A request fails when it is not answered, or when the partition is unavailable (408, 410, 5xx).
/// After a failure the partition is in backoff, for 1 s at first and up to 30 s. Then the health
/// lets a single caller try it. Any other answer ends the backoff.
///
/// A partition that answers slowly is not silent: after a slow answer, the health waits for twice the
/// time of that answer. A partition that answers a second long only by 429 to point reads, queries
/// or writes is in backoff for such requests, for up to 5 s.
///
/// If all partitions fail, none is in backoff, because then a request delays no other work.
#[derive(Debug, Default)]
pub struct PartitionHealth {
    circuits: Mutex<HashMap<PhysicalPartitionId, Known>>,
    /// Those of partitions that failed over alone, or whose region did not answer.
    endpoints: Mutex<HashMap<PhysicalPartitionId, RangeEndpoints>>,
    /// The number of writes that were sent.
    writes: AtomicU64,
    /// Whether a partition has failed again since the partitions were listed.
    is_doubtful: AtomicBool,
}

impl PartitionHealth {
    pub(super) fn circuits(&self) -> MutexGuard<'_, HashMap<PhysicalPartitionId, Known>> {
        // The state is valid between any two statements, so a panic elsewhere does not corrupt it.
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the container has a single known partition, which is never in backoff.
    pub(crate) fn is_single(&self) -> bool {
        self.circuits().len() < 2
    }

    /// Whether no partition has failed since its last answer. A throttled partition answers.
    pub fn all_answer(&self) -> bool {
        self.circuits().values().all(|known| known.is_closed(&[]))
    }

    /// Whether no partition has a backoff.
    pub(crate) fn all_work(&self) -> bool {
        self.circuits().values().all(|known| known.is_closed(WORK))
    }

    /// Returns those of these partitions whose queries are not in backoff.
    #[must_use]
    pub fn available(&self, ranges: Vec<PhysicalPartitionId>) -> Vec<PhysicalPartitionId> {
        let admits = |range: &PhysicalPartitionId| self.admit(range, SEARCH).is_none();
        ranges.into_iter().filter(admits).collect()
    }

    /// Returns the rest of a partition's backoff. The caller sends a request if there is none.
    pub fn backoff_of(&self, range: &PhysicalPartitionId) -> Option<Duration> {
        self.admit(range, &[])
    }

    /// As [`backoff_of`](Self::backoff_of), for work in a logical partition, which also waits for a
    /// partition that throttles its requests.
    pub(crate) fn backoff_of_work(&self, range: &PhysicalPartitionId) -> Option<Duration> {
        self.admit(range, WORK)
    }

    fn admit(&self, range: &PhysicalPartitionId, classes: &[Class]) -> Option<Duration> {
        let mut circuits = self.circuits();
        if !circuits.values().any(|known| known.is_closed(classes)) {
            return None;
        }
        circuits.get_mut(range)?.admit(classes, Instant::now())
    }

    /// Returns why work in a partition goes behind that in others: the partition has refused requests, or
    /// takes long for writes, and another one does neither.
    pub(crate) fn behind(&self, range: &PhysicalPartitionId) -> Option<Behind> {
        self.behind_of(range, WORK)
    }

    pub(super) fn behind_of(
        &self,
        range: &PhysicalPartitionId,
        classes: &[Class],
    ) -> Option<Behind> {
        let now = Instant::now();
        let circuits = self.circuits();
        let behind = circuits.get(range)?.behind(classes, now)?;
        let mut known = circuits.values();
        known
            .any(|known| known.is_closed(classes) && known.behind(classes, now).is_none())
            .then_some(behind)
    }

    /// Returns `true` if a partition has not answered since a failure or throttles requests, while
    /// others answer. Unlike [`backoff_of`](Self::backoff_of), it lets no caller try the partition.
    pub fn is_silent(&self, range: &PhysicalPartitionId) -> bool {
        let circuits = self.circuits();
        let is_silent = circuits.get(range).is_some_and(|known| {
            let throttled_for = known.throttled_for(WORK, Instant::now());
            !known.silence.is_closed() || throttled_for.is_some()
        });
        is_silent && circuits.values().any(|known| known.is_closed(WORK))
    }

    /// Returns the backoff of the work of this task if it is throttled for as long as `most`, while other
    /// partitions answer.
    pub(crate) fn stalled(&self, range: &PhysicalPartitionId, most: Duration) -> Option<Duration> {
        let now = Instant::now();
        let (class, since) = refused().filter(|(_, since)| now - *since >= most)?;
        if !self.others_answer(range, WORK) {
            return None;
        }
        let mut circuits = self.circuits();
        let known = circuits.get_mut(range)?;
        known.refused(class, since, now);
        Some(known.throttled_for(WORK, now).unwrap_or(FIRST))
    }

    /// Returns since when a write of the work of this task has had no answer.
    pub(crate) fn unanswered_since(&self, range: &PhysicalPartitionId) -> Option<Instant> {
        let work = work_of_task()?;
        self.circuits().get(range)?.unanswered.since(work)
    }

    /// Returns the backoff of the work of this task if a write of it has had no answer for as long as
    /// `most`, while other partitions answer in time.
    pub(crate) fn unanswered(
        &self,
        range: &PhysicalPartitionId,
        most: Duration,
    ) -> Option<Duration> {
        let now = Instant::now();
        let since = self.unanswered_since(range)?;
        if now - since < most || self.behind(range).is_none_or(|behind| behind.is_slow) {
            return None;
        }
        let mut circuits = self.circuits();
        let known = circuits.get_mut(range)?;
        let backoff = known.refused(Class::Writes, since, now);
        let rest = known.throttled_for(WORK, now).unwrap_or(FIRST);
        drop(circuits);
        if let Some(backoff) = backoff {
            tracing::warn!(%range, ?backoff, "a physical partition does not answer writes");
        }
        Some(rest)
    }

    /// Notes that a write is sent. Returns what ends with its answer.
    pub(super) fn sent(&self, range: &PhysicalPartitionId, at: Instant) -> Option<UnansweredId> {
        let id = (at, self.writes.fetch_add(1, Relaxed));
        let work = work_of_task();
        self.circuits().get_mut(range)?.unanswered.add(id, work);
        Some(id)
    }

    pub(super) fn answered_or_dropped(&self, range: &PhysicalPartitionId, id: UnansweredId) {
        if let Some(known) = self.circuits().get_mut(range) {
            known.unanswered.remove(id);
        }
    }

    pub(crate) fn patience(&self, range: &PhysicalPartitionId, class: Class) -> Duration {
        let circuits = self.circuits();
        let known = circuits.get(range);
        known.map_or(FIRST, |known| known.patience(class, Instant::now()))
    }

    pub(super) fn others_answer(&self, range: &PhysicalPartitionId, classes: &[Class]) -> bool {
        let circuits = self.circuits();
        let mut others = circuits.iter().filter(|(other, _)| *other != range);
        others.any(|(_, known)| known.is_closed(classes))
    }

    /// Returns `true` once after a repeated failure: a split partition need not answer that it is gone.
    pub(crate) fn takes_new_list(&self) -> bool {
        self.is_doubtful.swap(false, Relaxed)
    }

    /// Follows a new list of the partitions.
    pub(crate) fn follow(&self, map: &RangeMap) {
        let now = Instant::now();
        let mut circuits = self.circuits();
        let mut known = std::mem::take(&mut *circuits);
        circuits.extend(map.iter().map(|range| {
            let known = known.remove(&range.id);
            (range.id.clone(), known.unwrap_or_else(|| Known::new(now)))
        }));
        self.endpoints()
            .retain(|range, _| circuits.contains_key(range));
    }

    /// Forgets the partitions of a deleted container.
    pub(crate) fn clear(&self) {
        self.circuits().clear();
        self.endpoints().clear();
    }

    pub(super) fn endpoints(&self) -> MutexGuard<'_, HashMap<PhysicalPartitionId, RangeEndpoints>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request sent at this time has failed.
    pub(super) fn failed(&self, range: &PhysicalPartitionId, sent_at: Instant, longest: Duration) {
        let backoff = self.circuits().get_mut(range).and_then(|known| {
            let silence = &mut known.silence;
            silence.failed(sent_at, Instant::now(), longest)
        });
        if let Some(backoff) = backoff
            && self.others_answer(range, &[])
        {
            tracing::warn!(%range, ?backoff, "a physical partition does not answer");
            // Not after a short silence.
            self.is_doubtful.fetch_or(backoff > FIRST, Relaxed);
        }
    }

    /// Notes that a request of this class has failed after refusals for this time.
    pub(super) fn refused_for(&self, range: &PhysicalPartitionId, class: Class, time: Duration) {
        if let Some(known) = self.circuits().get_mut(range) {
            known.refused_for(class, time, Instant::now());
        }
    }

    /// Whether an answer that took so long is slow: much slower than those of other partitions.
    fn is_slow(&self, range: &PhysicalPartitionId, class: Class, took: Duration) -> bool {
        let now = Instant::now();
        let circuits = self.circuits();
        let others = circuits.iter().filter(|(other, _)| *other != range);
        let usual = |class| {
            others
                .clone()
                .filter_map(move |(_, known)| known.usual(class, now))
        };
        // Without a write elsewhere, other requests tell how long the network takes.
        let any = || Class::ALL.into_iter().flat_map(usual).min();
        let elsewhere = usual(class).min().or_else(any);
        elsewhere.is_none_or(|usual| took >= usual * SLOWER)
    }

    /// Notes an answer to a request of this class, and the time of its attempt. Before it, the request
    /// got only answers of 429 since `refused_since`.
    pub(super) fn answered(
        &self,
        range: &PhysicalPartitionId,
        class: Class,
        took: Duration,
        is_throttled: bool,
        refused_since: Option<Instant>,
    ) {
        note_stall(class, is_throttled);
        let now = Instant::now();
        let may_be_slow = class == Class::Writes && !is_throttled && took >= LEAST_SLOW;
        let is_slow = may_be_slow && self.is_slow(range, class, took);
        let backoff = self.circuits().get_mut(range).and_then(|known| {
            known.answered(class, took, is_throttled, now);
            if is_slow {
                known.was_slow(took, now);
            }
            let since = refused_since?;
            known.refused_for(class, now - since, now);
            is_throttled.then(|| known.refused(class, since, now))?
        });
        if let Some(backoff) = backoff
            && self.others_answer(range, WORK)
        {
            tracing::warn!(%range, ?class, ?backoff, "a physical partition throttles requests");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::circuit::SILENT_BEFORE;
    use super::super::fixture::{health, ids};
    use super::*;

    const QUERIES: Class = Class::Queries;

    #[tokio::test(start_paused = true)]
    async fn work_goes_behind_only_while_another_partition_refuses_nothing() {
        let (health, all) = (health(&["0", "1"]), ids(&["0", "1"]));
        for range in &all {
            let since = Some(Instant::now());
            tokio::time::advance(FIRST / 2).await;
            health.answered(range, QUERIES, Duration::ZERO, false, since);
            let others = all.iter().filter(|other| *other != range);
            let is_first = range == &all[0];
            assert_eq!(health.behind(range).is_some(), is_first);
            assert!(
                others
                    .map(|other| health.behind(other))
                    .all(|rest| rest.is_none())
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_behind_after_a_write_that_is_much_slower_than_elsewhere() {
        let ms = Duration::from_millis;
        // Without a write elsewhere, a query tells how long the network takes.
        for class in [Class::Writes, QUERIES] {
            let (health, all) = (health(&["0", "1"]), ids(&["0", "1"]));
            let took = |range, class, time| health.answered(range, class, time, false, None);
            took(&all[0], class, ms(100));
            took(&all[1], Class::Writes, ms(399));
            assert_eq!(health.behind(&all[1]), None);
            took(&all[1], Class::Writes, ms(400));
            let (rest, is_slow) = (ms(1_600), true);
            assert_eq!(health.behind(&all[1]), Some(Behind { rest, is_slow }));
            assert_eq!(health.behind(&all[0]), None);
            tokio::time::advance(rest).await;
            assert_eq!(health.behind(&all[1]), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_behind_while_a_write_has_no_answer_in_time() {
        let (health, all) = (health(&["0", "1"]), ids(&["0", "1"]));
        let send = || {
            let watch = health.watch(all[1].clone(), Class::Writes, false);
            watch.sent_to(&Arc::from("https://one"));
            watch
        };
        let is_slow = || health.behind(&all[1]).map(|behind| behind.is_slow);
        let write = send();
        tokio::time::advance(FIRST / 2).await;
        assert_eq!(is_slow(), None);
        tokio::time::advance(FIRST / 2).await;
        assert_eq!(is_slow(), Some(false));
        write.ended(&Ok(()));
        assert_eq!(is_slow(), Some(true));
        // Writes are now awaited for two seconds.
        let _late = send();
        tokio::time::advance(FIRST).await;
        assert_eq!(is_slow(), Some(true));
        tokio::time::advance(FIRST).await;
        assert_eq!(is_slow(), Some(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_request_is_a_failure_only_if_it_was_silent_for_long() {
        let (health, all) = (health(&["0", "1"]), ids(&["0", "1"]));
        let dropped_after = async |time: Duration| {
            let watch = health.watch(all[1].clone(), QUERIES, false);
            tokio::time::sleep(time).await;
            drop(watch);
            health.all_answer()
        };
        assert!(dropped_after(FIRST / 2).await);
        assert!(!dropped_after(FIRST.saturating_sub(SILENT_BEFORE)).await);
    }
}
