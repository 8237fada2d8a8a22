//! The health of each physical partition: a circuit breaker per partition, like the partition-level
//! circuit breaker of the official clients.
//!
//! Every request whose physical partition is known reports its end here. The client itself refuses
//! no request. A caller with work in several partitions reads the health and leaves out those that
//! do not answer, so that they delay only their own work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::physical_partitions::{PhysicalPartitionId, RangeMap};
use crate::status::Status;

/// The deadline of a request while other partitions answer, and the first backoff.
const FIRST: Duration = Duration::from_secs(1);

/// The longest backoff, which doubles with each failed trial, and the time for which the requests of
/// a partition avoid the region that did not answer.
const LONGEST: Duration = Duration::from_secs(30);

/// The time without an answer after which a dropped request counts as a failure: a little less than
/// the deadline, which begins before the request is sent.
const SILENT_AFTER: Duration = Duration::from_millis(900);

/// Which physical partitions of a container answer.
///
/// A request fails when it is not answered, or when the partition is unavailable (408, 410, 5xx).
/// After a failure the partition is in backoff, for 1 s at first and up to 30 s. Then the health
/// lets a single caller try it. Any other answer ends the backoff.
///
/// If all partitions fail, none is in backoff, because then a request delays no other work.
#[derive(Debug, Default)]
pub struct PartitionHealth {
    circuits: Mutex<HashMap<PhysicalPartitionId, Circuit>>,
    /// Those of partitions that failed over alone, or whose region did not answer.
    endpoints: Mutex<HashMap<PhysicalPartitionId, RangeEndpoints>>,
}

/// The regions of a physical partition, as far as they differ from those of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeEndpoints {
    /// The endpoint of the region that has its writes. `None` for the account's write region.
    pub writes: Option<Arc<str>>,
    /// The endpoint of the last request without an answer, and the time.
    silent: Option<(Arc<str>, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct Circuit {
    /// The last answer, or the time when the partition became known.
    answered_at: Instant,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open {
        retry_at: Instant,
        backoff: Duration,
    },
    /// One caller tries the partition until this time.
    HalfOpen {
        until: Instant,
        backoff: Duration,
    },
}

/// What the end of a request says about its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Answer,
    Failure,
    Nothing,
}

impl Circuit {
    fn new(now: Instant) -> Self {
        Self {
            answered_at: now,
            state: State::Closed,
        }
    }

    fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    fn answered(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Notes the failure of a request. Returns the backoff that begins with it. Failures during a
    /// backoff count once. A request sent before the last answer says nothing.
    fn failed(&mut self, sent_at: Instant, now: Instant, longest: Duration) -> Option<Duration> {
        let backoff = match self.state {
            _ if sent_at < self.answered_at => return None,
            State::Open { retry_at, .. } if now < retry_at => return None,
            State::Closed => FIRST,
            State::Open { backoff, .. } | State::HalfOpen { backoff, .. } => {
                (backoff * 2).min(longest)
            }
        };
        let retry_at = now + backoff;
        self.state = State::Open { retry_at, backoff };
        Some(backoff)
    }

    /// Returns the rest of the backoff. `None` lets the caller send a request: without a backoff
    /// every caller, after a backoff one caller until its trial has failed or `FIRST` has passed.
    fn admit(&mut self, now: Instant) -> Option<Duration> {
        let (until, backoff) = match self.state {
            State::Closed => return None,
            State::Open { retry_at, backoff } => (retry_at, backoff),
            State::HalfOpen { until, backoff } => (until, backoff),
        };
        if now < until {
            return Some(until - now);
        }
        let until = now + FIRST;
        self.state = State::HalfOpen { until, backoff };
        None
    }
}

impl PartitionHealth {
    fn circuits(&self) -> MutexGuard<'_, HashMap<PhysicalPartitionId, Circuit>> {
        // The state is valid between any two statements, so a panic elsewhere does not corrupt it.
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the container has a single known partition, which is never in backoff.
    pub(crate) fn is_single(&self) -> bool {
        self.circuits().len() < 2
    }

    /// Whether no partition has failed since its last answer.
    pub fn all_answer(&self) -> bool {
        self.circuits().values().all(Circuit::is_closed)
    }

    /// Returns those of these partitions that are not in backoff.
    #[must_use]
    pub fn available(&self, ranges: Vec<PhysicalPartitionId>) -> Vec<PhysicalPartitionId> {
        let admits = |range: &PhysicalPartitionId| self.backoff_of(range).is_none();
        ranges.into_iter().filter(admits).collect()
    }

    /// Returns the rest of a partition's backoff. The caller sends a request if there is none.
    pub fn backoff_of(&self, range: &PhysicalPartitionId) -> Option<Duration> {
        let mut circuits = self.circuits();
        if !circuits.values().any(Circuit::is_closed) {
            return None;
        }
        circuits.get_mut(range)?.admit(Instant::now())
    }

    /// Returns `true` if a partition has not answered since a failure, while others answer. Unlike
    /// [`backoff_of`](Self::backoff_of), it lets no caller try the partition.
    pub fn is_silent(&self, range: &PhysicalPartitionId) -> bool {
        let is_closed =
            |circuits: &HashMap<_, Circuit>| circuits.get(range).is_none_or(Circuit::is_closed);
        !is_closed(&self.circuits()) && self.others_answer(range)
    }

    /// Awaits a request to a partition. The request has a deadline of a second while other
    /// partitions answer.
    ///
    /// # Errors
    /// When the request fails; [`Unavailable`](ErrorKind::Unavailable) after the deadline.
    pub async fn in_time<T, E: From<Error>>(
        &self,
        range: &PhysicalPartitionId,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if !self.others_answer(range) {
            return request.await;
        }
        let answered = tokio::time::timeout(FIRST, request).await;
        answered.unwrap_or_else(|_| {
            let message = format!("physical partition {range} did not answer within {FIRST:?}");
            Err(Error::new(ErrorKind::Unavailable, message).into())
        })
    }

    fn others_answer(&self, range: &PhysicalPartitionId) -> bool {
        let circuits = self.circuits();
        let mut others = circuits.iter().filter(|(other, _)| *other != range);
        others.any(|(_, circuit)| circuit.is_closed())
    }

    /// Follows a new list of the partitions.
    pub(crate) fn follow(&self, map: &RangeMap) {
        let now = Instant::now();
        let mut circuits = self.circuits();
        let known = std::mem::take(&mut *circuits);
        circuits.extend(map.iter().map(|range| {
            let circuit = known.get(&range.id).copied();
            (range.id.clone(), circuit.unwrap_or(Circuit::new(now)))
        }));
        self.endpoints()
            .retain(|range, _| circuits.contains_key(range));
    }

    /// Forgets the partitions of a deleted container.
    pub(crate) fn clear(&self) {
        self.circuits().clear();
        self.endpoints().clear();
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<PhysicalPartitionId, RangeEndpoints>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a request that is about to be sent. `can_fail_over` says that its partition may move
    /// to another region alone.
    pub(crate) fn watch(&self, range: PhysicalPartitionId, can_fail_over: bool) -> Watch<'_> {
        Watch {
            health: self,
            range,
            is_over: false,
            can_fail_over,
            attempts: Mutex::new(Attempts {
                sent_at: Instant::now(),
                endpoint: None,
                is_answered: false,
            }),
        }
    }

    fn note(
        &self,
        range: &PhysicalPartitionId,
        sent_at: Instant,
        signal: Signal,
        longest: Duration,
    ) {
        let now = Instant::now();
        let mut circuits = self.circuits();
        let Some(circuit) = circuits.get_mut(range) else {
            return;
        };
        let backoff = match signal {
            Signal::Answer => return circuit.answered(now),
            Signal::Failure => circuit.failed(sent_at, now, longest),
            Signal::Nothing => return,
        };
        drop(circuits);
        if let Some(backoff) = backoff
            && self.others_answer(range)
        {
            tracing::warn!(%range, ?backoff, "a physical partition does not answer");
        }
    }
}

/// A request under way. Dropping it counts as a failure of the partition after a while without an
/// answer.
pub(crate) struct Watch<'a> {
    health: &'a PartitionHealth,
    range: PhysicalPartitionId,
    is_over: bool,
    can_fail_over: bool,
    attempts: Mutex<Attempts>,
}

/// The attempts of a request since its last answer.
#[derive(Clone)]
struct Attempts {
    /// The time of the first attempt since the last answer.
    sent_at: Instant,
    /// The endpoint of the last attempt.
    endpoint: Option<Arc<str>>,
    /// Whether the partition has answered, and the request waits before its next attempt.
    is_answered: bool,
}

impl Watch<'_> {
    /// Returns the regions of the partition.
    pub(crate) fn endpoints(&self) -> RangeEndpoints {
        let known = self.health.endpoints();
        known.get(&self.range).cloned().unwrap_or_default()
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where the next attempt goes.
    pub(crate) fn sent_to(&self, endpoint: &Arc<str>) {
        let mut attempts = self.attempts();
        attempts.endpoint = Some(endpoint.clone());
        if std::mem::take(&mut attempts.is_answered) {
            attempts.sent_at = Instant::now();
        }
    }

    /// Notes that the partition has answered an attempt, which the request may repeat after a wait.
    pub(crate) fn answered(&self, status: Status) {
        if Signal::of_status(status) == Signal::Answer {
            self.note(Signal::Answer);
            self.attempts().is_answered = true;
        }
    }

    /// Notes which region has the writes of the partition; `None` for the account's write region.
    /// As in azure_data_cosmos_driver (PARTITION_LEVEL_FAILOVER_SPEC.md 6.4), an answer proves that,
    /// and only another region's answer ends it: the service decides, so nothing expires.
    pub(crate) fn writes_are_at(&self, endpoint: Option<&Arc<str>>) {
        let mut known = self.health.endpoints();
        if endpoint.is_none() && !known.contains_key(&self.range) {
            return;
        }
        let range = known.entry(self.range.clone()).or_default();
        if range.writes.as_ref() != endpoint {
            tracing::info!(range = %self.range, endpoint = endpoint.map(|it| &**it), "the writes of a physical partition moved");
        }
        range.writes = endpoint.cloned();
        let answered = self.attempts();
        range
            .silent
            .take_if(|(silent, _)| Some(&*silent) == answered.endpoint.as_ref());
        if *range == RangeEndpoints::default() {
            known.remove(&self.range);
        }
    }

    /// Notes the end of the request.
    pub(crate) fn ended<T>(mut self, result: &Result<T>) {
        self.is_over = true;
        self.note(result.as_ref().map_or_else(Signal::of, |_| Signal::Answer));
    }

    fn note(&self, signal: Signal) {
        // A trial of a partition that can fail over asks another region first, and ends at once
        // after the move.
        let longest = if self.can_fail_over { FIRST } else { LONGEST };
        let Attempts {
            sent_at, endpoint, ..
        } = self.attempts().clone();
        self.health.note(&self.range, sent_at, signal, longest);
        if let Some(endpoint) = endpoint
            && self.can_fail_over
            && signal == Signal::Failure
        {
            let mut known = self.health.endpoints();
            let range = known.entry(self.range.clone()).or_default();
            range.silent = Some((endpoint, Instant::now()));
        }
    }
}

impl RangeEndpoints {
    /// Whether requests prefer other regions to this one.
    pub(crate) fn avoids(&self, endpoint: &Arc<str>, now: Instant) -> bool {
        let silent = self.silent.as_ref();
        silent.is_some_and(|(silent, since)| silent == endpoint && now - *since < LONGEST)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let is_silent = {
            let attempts = self.attempts();
            !attempts.is_answered && attempts.sent_at.elapsed() >= SILENT_AFTER
        };
        if !self.is_over && is_silent {
            self.note(Signal::Failure);
        }
    }
}

impl Signal {
    /// Returns what a status says. A throttled partition has answered, and so has one that was split.
    fn of_status(status: Status) -> Self {
        match status {
            Status::RANGE_GONE => Self::Answer,
            status if matches!(status.code, 408 | 410 | 500..=599) => Self::Failure,
            _ => Self::Answer,
        }
    }

    /// Returns what an error says.
    fn of(error: &Error) -> Self {
        match error.status() {
            Some(status) => Self::of_status(status),
            None if error.kind() == ErrorKind::Unavailable => Self::Failure,
            None => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<PhysicalPartitionId> {
        serde_json::from_value(serde_json::json!(ids)).expect("a range id is a string")
    }

    fn health(ranges: &[&str]) -> PartitionHealth {
        let health = PartitionHealth::default();
        let new = |range| (range, Circuit::new(Instant::now()));
        health.circuits().extend(ids(ranges).into_iter().map(new));
        health
    }

    #[tokio::test(start_paused = true)]
    async fn the_backoff_doubles_with_each_failed_trial_and_ends_with_an_answer() {
        let mut now = Instant::now();
        let mut circuit = Circuit::new(now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let backoff = Duration::from_secs(seconds);
            assert_eq!(circuit.admit(now), None);
            assert_eq!(circuit.failed(now, now, LONGEST), Some(backoff));
            assert_eq!(circuit.failed(now, now, LONGEST), None, "it counts once");
            now += backoff / 2;
            assert_eq!(circuit.admit(now), Some(backoff / 2));
            now += backoff / 2;
        }
        circuit.answered(now);
        assert!(circuit.is_closed());
        assert_eq!(circuit.failed(now, now, LONGEST), Some(FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_at_a_time_tries_a_partition_after_its_backoff() {
        let now = Instant::now();
        let mut circuit = Circuit::new(now);
        assert_eq!(circuit.failed(now, now, LONGEST), Some(FIRST));
        let now = now + FIRST;
        assert_eq!(circuit.admit(now), None);
        assert_eq!(circuit.admit(now), Some(FIRST));
        // The caller of the trial has sent nothing.
        assert_eq!(circuit.admit(now + FIRST), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_failure_of_a_request_sent_before_the_last_answer_is_ignored() {
        let sent_at = Instant::now();
        let mut circuit = Circuit::new(sent_at);
        circuit.answered(sent_at + FIRST);
        assert_eq!(circuit.failed(sent_at, sent_at + FIRST * 2, LONGEST), None);
        assert!(circuit.is_closed());
    }

    #[test]
    fn unavailability_is_a_failure_and_every_refusal_is_an_answer() {
        let signal = |code, sub| {
            let status = Status::new(code, sub);
            let details = crate::error::CallDetails {
                operation: crate::operation::OperationKind::Read,
                resource: String::new(),
                status: Some(status),
                activity_id: String::new(),
                attempts: 1,
                elapsed: Duration::ZERO,
                retry_after: None,
                charge: 0.0,
                ambiguous: false,
            };
            Signal::of(&Error::new(ErrorKind::of_status(status), "").with_call(details))
        };
        for (code, sub) in [(408, 0), (410, 1007), (500, 0), (503, 0)] {
            assert_eq!(signal(code, sub), Signal::Failure, "{code}/{sub}");
        }
        for (code, sub) in [(404, 0), (404, 1002), (409, 0), (410, 1002), (412, 0)] {
            assert_eq!(signal(code, sub), Signal::Answer, "{code}/{sub}");
        }
        for (code, sub) in [(400, 0), (403, 1014), (429, 3200), (449, 0)] {
            assert_eq!(signal(code, sub), Signal::Answer, "{code}/{sub}");
        }
        assert_eq!(Signal::of(&Error::configuration("")), Signal::Nothing);
        let silent = Error::new(ErrorKind::Unavailable, "");
        assert_eq!(Signal::of(&silent), Signal::Failure);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_partition_has_a_deadline_while_another_one_answers() {
        let (health, all) = (health(&["0", "1"]), ids(&["0", "1"]));
        let silent = async {
            let watch = health.watch(all[1].clone(), false);
            std::future::pending::<()>().await;
            watch.ended(&Ok(()));
            Ok(())
        };
        let begun = Instant::now();
        let answer: Result<()> = health.in_time(&all[1], silent).await;
        assert!(answer.is_err_and(|error| error.is_transient()));
        assert_eq!(begun.elapsed(), FIRST);
        assert_eq!(health.available(all.clone()), ids(&["0"]));
        assert_eq!(health.backoff_of(&all[1]), Some(FIRST));
        tokio::time::advance(FIRST).await;
        assert!(health.is_silent(&all[1]) && !health.is_silent(&all[0]));
        assert_eq!(health.backoff_of(&all[1]), None, "a caller may try it");
        health.watch(all[1].clone(), false).ended(&Ok(()));
        assert!(health.all_answer() && !health.is_silent(&all[1]));
        assert_eq!(health.available(all.clone()), all);
    }

    #[tokio::test(start_paused = true)]
    async fn without_another_partition_that_answers_there_is_no_backoff_and_no_deadline() {
        let (health, all) = (health(&["0", "1"]), ids(&["0", "1"]));
        for range in &all {
            health.note(range, Instant::now(), Signal::Failure, LONGEST);
        }
        assert_eq!(health.available(all.clone()), all);
        assert!(!health.all_answer());
        let slow = async {
            tokio::time::sleep(FIRST * 5).await;
            Ok(7)
        };
        let answer: Result<u32> = health.in_time(&all[0], slow).await;
        assert_eq!(answer.expect("it answers"), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_request_is_a_failure_only_if_it_was_silent_for_long() {
        let (health, all) = (health(&["0", "1"]), ids(&["0", "1"]));
        let dropped_after = async |time: Duration| {
            let watch = health.watch(all[1].clone(), false);
            tokio::time::sleep(time).await;
            drop(watch);
            health.all_answer()
        };
        assert!(dropped_after(SILENT_AFTER / 2).await);
        assert!(!dropped_after(SILENT_AFTER).await);
    }
}
