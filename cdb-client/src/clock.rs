//! The service's clock, estimated from the `Date` of its answers. The only module that reads the
//! system's clock.
//!
//! `Date` has whole seconds. One answer says that the service's clock was inside that second at
//! some time between sending the request and receiving the answer. Each answer therefore bounds the
//! offset from both sides, and the bounds of many answers together are as narrow as a round trip.
//! The machine's clock is read once and corrected only as far as the bounds demand, so an accurate
//! machine is never corrected. Offsets are measured against a monotonic clock, so setting the
//! machine's clock later has no effect.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cdb_model::Timestamp;
use tokio::time::Instant;

/// How far two working clocks may drift apart, in millionths.
const DRIFT_PPM: i64 = 100;

/// The last millisecond that an RFC 9110 date can express.
const LAST_HTTP_DATE: Timestamp = Timestamp::from_millis(253_402_300_799_999);

/// The clock stops for backward corrections up to this, so that due times do not move back into the
/// future.
const STANDSTILL_MS: i64 = 1000;

/// An estimate of the service's clock.
#[derive(Debug)]
pub(crate) struct ServiceClock {
    anchor: Instant,
    /// The machine's time at `anchor`.
    local_at_anchor: i64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bounds: Option<Bounds>,
    /// The latest time returned.
    last: i64,
}

/// The offset (service time in ms minus ms since `anchor`) lies between `low` and `high`.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i64,
    high: i64,
    /// When the bounds were last narrowed, in ms since `anchor`.
    at: i64,
}

impl ServiceClock {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::starting_at(machine_now())
    }

    /// Starts with `time` as the service's time, until an answer corrects it.
    pub(crate) fn starting_at(time: Timestamp) -> Self {
        Self {
            anchor: Instant::now(),
            local_at_anchor: i64::try_from(time.as_millis()).unwrap_or(0),
            state: Mutex::new(State::default()),
        }
    }

    /// Returns the best estimate of the service's time.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = self.since_anchor(Instant::now());
        let mut state = self.lock();
        let estimate = self.offset(state.bounds).saturating_add(elapsed);
        if estimate > state.last || state.last - estimate > STANDSTILL_MS {
            state.last = estimate;
        }
        Timestamp::from_millis(u64::try_from(state.last).unwrap_or(0))
    }

    /// Returns the largest possible error of [`now`](Self::now); `None` before the first answer.
    pub(crate) fn uncertainty(&self) -> Option<Duration> {
        let bounds = self.lock().bounds?;
        let offset = self.offset(Some(bounds));
        let furthest = (bounds.high - offset).max(offset - bounds.low);
        u64::try_from(furthest).ok().map(Duration::from_millis)
    }

    /// Returns how far the service's clock is ahead of the machine's first reading, in ms; `None`
    /// before the first answer.
    pub(crate) fn ahead_of_machine(&self) -> Option<i64> {
        let bounds = self.lock().bounds?;
        Some(self.offset(Some(bounds)) - self.local_at_anchor)
    }

    fn offset(&self, bounds: Option<Bounds>) -> i64 {
        bounds.map_or(self.local_at_anchor, |bounds| {
            self.local_at_anchor.clamp(bounds.low, bounds.high)
        })
    }

    /// Returns the service's time as an RFC 9110 date, for `x-ms-date`.
    pub(crate) fn http_date(&self) -> String {
        http_date_of(self.now())
    }

    /// Narrows the bounds with the `Date` of an answer.
    pub(crate) fn observe(&self, sent: Instant, received: Instant, date: &str) {
        let Some(second) = parse_http_date(date) else {
            return;
        };
        let seen = Bounds {
            low: second - self.since_anchor(received),
            high: second + 1000 - self.since_anchor(sent),
            at: self.since_anchor(received),
        };
        let mut state = self.lock();
        state.bounds = Some(match state.bounds {
            Some(known) => known.narrowed(seen),
            None => seen,
        });
    }

    fn since_anchor(&self, instant: Instant) -> i64 {
        let millis = instant.saturating_duration_since(self.anchor).as_millis();
        i64::try_from(millis).unwrap_or(i64::MAX / 4)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bounds {
    /// Intersects both bounds. Contradicting bounds mean that a clock was set, so only the newer
    /// ones count.
    fn narrowed(self, seen: Self) -> Self {
        let drift = (seen.at - self.at).max(0) * DRIFT_PPM / 1_000_000;
        let low = (self.low - drift).max(seen.low);
        let high = (self.high + drift).min(seen.high);
        if low <= high {
            Self {
                low,
                high,
                // Drift counts in whole milliseconds, so a fraction keeps accumulating from the old
                // time.
                at: if drift > 0 { seen.at } else { self.at },
            }
        } else {
            seen
        }
    }
}

/// Returns the time of this machine's clock, which may be wrong. Compare it only with times that
/// were read from the same clock. Use the service's clock,
/// [`CosmosClient::now`](crate::CosmosClient::now), otherwise.
pub fn machine_now() -> Timestamp {
    Timestamp::from_millis(u64::try_from(system_millis()).unwrap_or(0))
}

/// Formats a time as an RFC 9110 date, in whole seconds. A time after the year 9999, which a wrong
/// clock or a stored cursor can contain, becomes the end of that year.
pub(crate) fn http_date_of(time: Timestamp) -> String {
    let millis = time.min(LAST_HTTP_DATE).as_millis();
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(millis))
}

fn parse_http_date(date: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(date).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the first request needs a date before any answer has shown the service's"
)]
fn system_millis() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_500_000_000_000;

    /// The clock of a machine that is `ahead` milliseconds ahead of a service whose time is `NOON`
    /// now.
    fn machine(ahead: i64) -> ServiceClock {
        ServiceClock {
            local_at_anchor: NOON + ahead,
            ..ServiceClock::new()
        }
    }

    /// Observes an answer with these times from a service whose clock was moved by `moved`
    /// milliseconds.
    fn answered(clock: &ServiceClock, [sent, served, received]: [u64; 3], moved: i64) {
        let at = |ms| clock.anchor + Duration::from_millis(ms);
        let shown = u64::try_from(NOON + moved).unwrap() + served;
        let date = http_date_of(Timestamp::from_millis(shown));
        clock.observe(at(sent), at(received), &date);
    }

    fn busy(clock: &ServiceClock) {
        for n in 0..200 {
            answered(clock, [n * 137, n * 137 + 2, n * 137 + 5], 0);
        }
    }

    /// Returns how far the clock is ahead of the service, in ms.
    fn ahead(clock: &ServiceClock) -> i64 {
        let now = i64::try_from(clock.now().as_millis()).unwrap();
        now - NOON - clock.since_anchor(Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn an_accurate_machine_is_not_corrected() {
        let clock = machine(3);
        busy(&clock);
        assert_eq!(ahead(&clock), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_corrects_the_clock_to_within_a_second() {
        for wrong in [-86_400_000, 86_400_000] {
            let clock = machine(wrong);
            answered(&clock, [100, 102, 104], 0);
            assert!(ahead(&clock).abs() <= 1004, "ahead by {} ms", ahead(&clock));
            let offset = clock.ahead_of_machine().unwrap();
            assert!((offset + wrong).abs() <= 1004, "offset {offset} ms");
            assert!(clock.uncertainty().unwrap() <= Duration::from_millis(1004));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_answers_correct_the_clock_to_within_a_round_trip() {
        for wrong in [-700, 700, -86_400_000] {
            let clock = machine(wrong);
            busy(&clock);
            assert!(ahead(&clock).abs() <= 12, "ahead by {} ms", ahead(&clock));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_clock_that_was_set_is_followed_at_once() {
        let clock = machine(0);
        busy(&clock);
        answered(&clock, [30_000, 30_002, 30_005], 60_000);
        assert!(
            (58_990..=61_010).contains(&ahead(&clock)),
            "{}",
            ahead(&clock)
        );
        answered(&clock, [30_000, 30_002, 30_005], -60_000);
        assert!(
            (-61_010..=-58_990).contains(&ahead(&clock)),
            "{}",
            ahead(&clock)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn small_corrections_never_turn_the_clock_back() {
        let clock = machine(700);
        let before = clock.now();
        busy(&clock);
        assert_eq!(clock.now(), before);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(clock.now() > before && ahead(&clock).abs() <= 12);
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_date_is_ignored() {
        let clock = machine(0);
        let now = clock.anchor;
        clock.observe(now, now, "yesterday");
        assert_eq!(clock.uncertainty(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_date_at_the_end_of_year_9999_does_not_panic() {
        let clock = machine(0);
        let (sent, received) = (clock.anchor, clock.anchor + Duration::from_millis(5));
        clock.observe(sent, received, "Fri, 31 Dec 9999 23:59:59 GMT");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.http_date(), "Fri, 31 Dec 9999 23:59:59 GMT");
        let never = http_date_of(Timestamp::from_millis(u64::MAX));
        assert_eq!(never, clock.http_date());
    }

    #[tokio::test(start_paused = true)]
    async fn dates_for_signing_are_http_dates() {
        assert_eq!(machine(0).http_date(), "Fri, 14 Jul 2017 02:40:00 GMT");
    }
}
