//! What is known of the requests to one physical partition: circuit breakers, and the time that
//! answers take.

use std::time::Duration;

use tokio::time::Instant;

use super::unanswered::Unanswered;
use crate::error::RequestKind;

/// The deadline of a request while other partitions answer, and the first backoff.
pub(super) const FIRST: Duration = Duration::from_secs(1);

/// The longest backoff, which doubles with each failed trial, and the time for which the requests of
/// a partition avoid the region that did not answer.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// The longest backoff of a partition that throttles requests. A trial costs its caller a second.
const LONGEST_THROTTLED: Duration = Duration::from_secs(5);

/// The longest deadline of a request while other partitions answer: that of an attempt.
const LONGEST_PATIENCE: Duration = Duration::from_secs(10);

/// The time for which the deadline of a slow partition stays longer after its last slow answer.
const SLOW_FOR: Duration = Duration::from_secs(60);

/// The shortest refusal after which the work of a partition goes behind that of others.
const LEAST_REFUSAL: Duration = Duration::from_millis(100);

/// The shortest time of an answer to a write that is slow. Writes take up to a tenth of a second in another
/// region, and bulks longer.
pub(super) const LEAST_SLOW: Duration = Duration::from_millis(250);

/// An answer is slow if it takes this many times as long as those of another partition.
pub(super) const SLOWER: u32 = 4;

/// The work goes behind for this many times as long as a request was refused or its answer
/// took, so that this takes at most a fifth of the time of a dispatcher whose other work is due.
const BEHIND: u32 = 4;

/// The kinds of requests that a partition may answer at different speeds, or throttle alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Points,
    Queries,
    Writes,
    Feeds,
}

impl Class {
    pub(super) const ALL: [Self; 4] = [Self::Points, Self::Queries, Self::Writes, Self::Feeds];

    pub(crate) fn of(kind: RequestKind) -> Self {
        match kind {
            RequestKind::Query => Self::Queries,
            RequestKind::ChangeFeed => Self::Feeds,
            kind if kind.is_read() => Self::Points,
            _ => Self::Writes,
        }
    }
}

/// The time by which a dropped request counts as a failure before its deadline, which begins before
/// the request is sent.
pub(super) const SILENT_BEFORE: Duration = Duration::from_millis(100);

/// What a search sends.
pub(super) const SEARCH: &[Class] = &[Class::Queries];

/// What work in a logical partition sends.
pub(super) const WORK: &[Class] = &[Class::Points, Class::Queries, Class::Writes];

/// Why work in a partition should go behind that in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Behind {
    /// For how long.
    pub rest: Duration,
    /// Whether the partition answers all requests, and takes up to 1.25 s for writes. Otherwise it refuses
    /// some, leaves them without an answer or takes longer.
    pub is_slow: bool,
}

/// What is known of a physical partition.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Opens when the partition does not answer.
    pub(super) silence: Circuit,
    /// Open when the partition throttles requests of a class.
    throttled: [Circuit; Class::ALL.len()],
    /// The deadlines of requests while other partitions answer.
    patience: [Patience; Class::ALL.len()],
    /// Until when a request may go on after its deadline.
    goes_on: [Option<Instant>; Class::ALL.len()],
    /// How long answers usually take.
    usual: [Usual; Class::ALL.len()],
    /// Until when requests of a class go behind those of other partitions.
    behind_until: [Option<Instant>; Class::ALL.len()],
    /// Until when its work goes behind that of others because its writes are slow.
    slow_until: Option<Instant>,
    /// The writes without an answer. After the time for which they are awaited, the work of the partition goes behind that of others.
    pub(super) unanswered: Unanswered,
}

impl Known {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            silence: Circuit::new(now),
            throttled: [Circuit::new(now); Class::ALL.len()],
            patience: [Patience::default(); Class::ALL.len()],
            goes_on: [None; Class::ALL.len()],
            usual: [Usual::default(); Class::ALL.len()],
            behind_until: [None; Class::ALL.len()],
            slow_until: None,
            unanswered: Unanswered::default(),
        }
    }

    /// Notes that an answer to a write took this time, which is long. A very long one counts as a refusal.
    pub(super) fn was_slow(&mut self, time: Duration, now: Instant) {
        if time * BEHIND > LONGEST_THROTTLED {
            self.refused_for(Class::Writes, time, now);
        } else {
            self.slow_until = self.slow_until.max(Some(now + time * BEHIND));
        }
    }

    /// Notes that a request of this class was refused for this time.
    pub(super) fn refused_for(&mut self, class: Class, time: Duration, now: Instant) {
        if time >= LEAST_REFUSAL {
            let until = now + (time * BEHIND).min(LONGEST_THROTTLED);
            let behind_until = &mut self.behind_until[class as usize];
            *behind_until = (*behind_until).max(Some(until));
        }
    }

    /// Returns for how long requests of these classes go behind those of other partitions, and why.
    pub(super) fn behind(&self, classes: &[Class], now: Instant) -> Option<Behind> {
        if let Some(rest) = self.refuses_for(classes, now) {
            let is_slow = false;
            return Some(Behind { rest, is_slow });
        }
        let until = self.slow_until.filter(|until| *until > now)?;
        classes.contains(&Class::Writes).then(|| Behind {
            rest: until - now,
            is_slow: true,
        })
    }

    /// Returns for how long requests of these classes go behind those of other partitions because this one
    /// refuses them or leaves writes without an answer.
    fn refuses_for(&self, classes: &[Class], now: Instant) -> Option<Duration> {
        let ends = classes
            .iter()
            .map(|class| self.behind_until[*class as usize]);
        let until = ends.max().flatten().filter(|until| *until > now);
        let refused = until.map(|until| until - now);
        let writes = classes.contains(&Class::Writes);
        let unanswered = self.unanswered.longest(now);
        let unanswered =
            unanswered.filter(|time| writes && *time >= self.patience(Class::Writes, now));
        refused.max(unanswered.map(|time| (time * BEHIND).min(LONGEST_THROTTLED)))
    }

    /// Returns how long answers to requests of this class usually take; `None` without a recent one.
    pub(super) fn usual(&self, class: Class, now: Instant) -> Option<Duration> {
        self.usual[class as usize].at(now)
    }

    pub(super) fn throttled(&mut self, class: Class) -> &mut Circuit {
        &mut self.throttled[class as usize]
    }

    /// Returns the deadline of a request of this class while other partitions answer.
    pub(super) fn patience(&self, class: Class, now: Instant) -> Duration {
        self.patience[class as usize].at(now)
    }

    /// Whether a request may go on after its deadline, until this time. One at a time does: it tells
    /// how long the partition takes, and more would only burden a partition that throttles them.
    pub(super) fn lets_go_on(&mut self, class: Class, now: Instant, until: Instant) -> bool {
        let goes_on = &mut self.goes_on[class as usize];
        let is_first = goes_on.is_none_or(|end| end <= now);
        if is_first {
            *goes_on = Some(until);
        }
        is_first
    }

    /// Notes an answer of the partition, and the time that it took. `is_throttled` says that it is a
    /// 429, which ends no backoff of throttled requests.
    pub(super) fn answered(
        &mut self,
        class: Class,
        took: Duration,
        is_throttled: bool,
        now: Instant,
    ) {
        self.silence = Circuit::new(now);
        if !is_throttled {
            self.patience[class as usize].note(took, now);
            self.usual[class as usize].note(took, now);
            // Only a slow answer is that of a request that went on.
            self.goes_on[class as usize].take_if(|_| took >= FIRST);
            self.throttled(class).state = State::Closed;
        }
    }

    /// Notes that a request was answered only by 429 since this time. Returns the backoff that
    /// begins with it.
    pub(super) fn refused(
        &mut self,
        class: Class,
        since: Instant,
        now: Instant,
    ) -> Option<Duration> {
        let circuit = self.throttled(class);
        let is_long = now - since >= FIRST;
        is_long.then(|| circuit.failed(since, now, LONGEST_THROTTLED))?
    }

    /// Whether requests of these classes are not in backoff, and no trial is pending.
    pub(super) fn is_closed(&self, classes: &[Class]) -> bool {
        let is_throttled = |class: &Class| !self.throttled[*class as usize].is_closed();
        self.silence.is_closed() && !classes.iter().any(is_throttled)
    }

    /// Returns the rest of the time in which the partition throttles requests of these classes.
    pub(super) fn throttled_for(&self, classes: &[Class], now: Instant) -> Option<Duration> {
        let circuits = classes.iter().map(|class| self.throttled[*class as usize]);
        circuits.filter_map(|circuit| circuit.rest(now)).max()
    }

    /// Returns the rest of the backoff. `None` lets the caller send requests of these classes.
    pub(super) fn admit(&mut self, classes: &[Class], now: Instant) -> Option<Duration> {
        let rest = self.throttled_for(classes, now);
        if let Some(rest) = self.silence.rest(now).max(rest) {
            return Some(rest);
        }
        let trial = now
            + classes
                .iter()
                .map(|class| self.patience(*class, now))
                .max()
                .unwrap_or(FIRST);
        self.silence.try_until(trial);
        for class in classes {
            self.throttled(*class).try_until(trial);
        }
        None
    }
}

/// A circuit breaker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circuit {
    /// The last answer or failure, or the time when the partition became known.
    noted_at: Instant,
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

impl Circuit {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            noted_at: now,
            state: State::Closed,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Notes the failure of a request. Returns the backoff that begins with it. Failures during a
    /// backoff count once. A request sent before the last answer or failure says nothing.
    pub(super) fn failed(
        &mut self,
        sent_at: Instant,
        now: Instant,
        longest: Duration,
    ) -> Option<Duration> {
        let backoff = match self.state {
            _ if sent_at < self.noted_at => return None,
            State::Open { retry_at, .. } if now < retry_at => return None,
            State::Closed => FIRST,
            State::Open { backoff, .. } | State::HalfOpen { backoff, .. } => {
                (backoff * 2).min(longest)
            }
        };
        self.noted_at = now;
        let retry_at = now + backoff;
        self.state = State::Open { retry_at, backoff };
        Some(backoff)
    }

    /// Returns the rest of the backoff, or of another caller's trial.
    fn rest(&self, now: Instant) -> Option<Duration> {
        let until = match self.state {
            State::Closed => return None,
            State::Open { retry_at, .. } => retry_at,
            State::HalfOpen { until, .. } => until,
        };
        (now < until).then(|| until - now)
    }

    /// Lets a single caller try the partition, until its trial has failed or this time.
    fn try_until(&mut self, until: Instant) {
        if let State::Open { backoff, .. } | State::HalfOpen { backoff, .. } = self.state {
            self.state = State::HalfOpen { until, backoff };
        }
    }
}

/// How long a caller waits for an answer while other partitions answer: a second, or twice as long as
/// the slowest recent answer took. So a slow partition is not taken for a silent one.
#[derive(Clone, Copy, Debug, Default)]
struct Patience(Option<(Duration, Instant)>);

impl Patience {
    fn at(self, now: Instant) -> Duration {
        let slow = self.0.filter(|(_, until)| now < *until);
        slow.map_or(FIRST, |(time, _)| time)
    }

    fn note(&mut self, took: Duration, now: Instant) {
        let wanted = (took * 2).min(LONGEST_PATIENCE);
        if wanted > FIRST {
            self.0 = Some((wanted.max(self.at(now)), now + SLOW_FOR));
        }
    }
}

/// How long answers take: a moving average of recent ones, each with a weight of one eighth.
#[derive(Clone, Copy, Debug, Default)]
struct Usual(Option<(Duration, Instant)>);

impl Usual {
    fn at(self, now: Instant) -> Option<Duration> {
        let recent = self.0.filter(|(_, until)| now < *until);
        recent.map(|(time, _)| time)
    }

    fn note(&mut self, took: Duration, now: Instant) {
        let average = self.at(now).map_or(took, |time| (time * 7 + took) / 8);
        self.0 = Some((average, now + SLOW_FOR));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERIES: &[Class] = &[Class::Queries];

    #[tokio::test(start_paused = true)]
    async fn the_backoff_doubles_with_each_failed_trial_and_ends_with_an_answer() {
        let mut now = Instant::now();
        let mut known = Known::new(now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let backoff = Duration::from_secs(seconds);
            assert_eq!(known.admit(QUERIES, now), None);
            assert_eq!(known.silence.failed(now, now, LONGEST), Some(backoff));
            assert_eq!(
                known.silence.failed(now, now, LONGEST),
                None,
                "it counts once"
            );
            now += backoff / 2;
            assert_eq!(known.admit(QUERIES, now), Some(backoff / 2));
            now += backoff / 2;
        }
        known.answered(Class::Points, Duration::ZERO, false, now);
        assert!(known.is_closed(&Class::ALL));
        assert_eq!(known.silence.failed(now, now, LONGEST), Some(FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_at_a_time_tries_a_partition_after_its_backoff() {
        let now = Instant::now();
        let mut known = Known::new(now);
        assert_eq!(known.silence.failed(now, now, LONGEST), Some(FIRST));
        let now = now + FIRST;
        assert_eq!(known.admit(QUERIES, now), None);
        assert_eq!(known.admit(QUERIES, now), Some(FIRST));
        // The caller of the trial has sent nothing.
        assert_eq!(known.admit(QUERIES, now + FIRST), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_failure_of_a_request_sent_before_the_last_answer_is_ignored() {
        let sent_at = Instant::now();
        let mut known = Known::new(sent_at);
        known.answered(Class::Points, Duration::ZERO, false, sent_at + FIRST);
        let failed = known.silence.failed(sent_at, sent_at + FIRST * 2, LONGEST);
        assert_eq!(failed, None);
        assert!(known.is_closed(&Class::ALL));
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_writes_have_a_backoff_of_their_own_which_only_a_write_ends() {
        let (sent_at, now) = (Instant::now(), Instant::now() + FIRST);
        let mut known = Known::new(sent_at);
        assert_eq!(
            known.refused(Class::Writes, sent_at, sent_at + FIRST / 2),
            None
        );
        assert_eq!(known.refused(Class::Writes, sent_at, now), Some(FIRST));
        assert_eq!(known.admit(QUERIES, now), None);
        known.answered(Class::Points, Duration::ZERO, false, now);
        known.answered(Class::Writes, Duration::ZERO, true, now);
        assert_eq!(known.admit(&Class::ALL, now), Some(FIRST));
        // One trial at a time, and at most five seconds between two.
        let mut now = now;
        for seconds in [2, 4, 5, 5] {
            now += known.admit(&Class::ALL, now).expect("it is in backoff");
            assert_eq!(known.admit(&Class::ALL, now), None);
            let backoff = known.refused(Class::Writes, now, now + FIRST);
            assert_eq!(backoff, Some(Duration::from_secs(seconds)));
            now += FIRST;
        }
        known.answered(Class::Writes, Duration::ZERO, false, now);
        assert!(known.is_closed(&Class::ALL));
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_behind_for_four_times_as_long_as_a_request_was_refused() {
        let now = Instant::now();
        let mut known = Known::new(now);
        for (refused, behind) in [(99, None), (100, Some(400)), (9_000, Some(5_000))] {
            known.refused_for(Class::Writes, Duration::from_millis(refused), now);
            assert_eq!(
                known.refuses_for(&[Class::Writes], now),
                behind.map(Duration::from_millis)
            );
        }
        known.refused_for(Class::Writes, Duration::from_millis(200), now);
        let later = now + Duration::from_secs(4);
        assert_eq!(
            known.refuses_for(&[Class::Writes], later),
            Some(FIRST),
            "it is not shortened"
        );
        assert_eq!(known.refuses_for(&[Class::Writes], later + FIRST), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_twice_the_time_of_the_slowest_recent_answer_of_its_class() {
        let now = Instant::now();
        let mut known = Known::new(now);
        let ms = Duration::from_millis;
        for (took, patience) in [
            (5, 1000),
            (500, 1000),
            (1500, 3000),
            (700, 3000),
            (9000, 10_000),
        ] {
            known.answered(Class::Queries, ms(took), false, now);
            assert_eq!(known.patience(Class::Queries, now), ms(patience));
            assert_eq!(known.patience(Class::Points, now), FIRST);
        }
        assert_eq!(known.patience(Class::Queries, now + SLOW_FOR), FIRST);
    }
}
