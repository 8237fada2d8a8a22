//! The service's clock, estimated from the `Date` of its answers. The only module that reads the system's clock.
//!
//! `Date` has whole seconds, so one answer only says: between sending and receiving it, the service's clock was inside
//! that second. Each answer therefore bounds the offset from both sides, and the bounds of many answers together are
//! as narrow as a round trip. The machine's own clock, read once, is corrected only as far as the bounds demand, so a
//! machine that keeps time is never corrected. Offsets are taken against a monotonic clock: setting the machine's clock
//! later changes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cdb_model::Timestamp;
use tokio::time::Instant;

/// How far two sound clocks may drift apart, in millionths.
const DRIFT_PPM: i64 = 100;

/// The last millisecond that the form of RFC 9110 has a year for.
const LAST_HTTP_DATE: Timestamp = Timestamp::from_millis(253_402_300_799_999);

/// Corrections backwards up to this are made by standing still, so that what was due stays due.
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
    /// The latest time given out.
    last: i64,
}

/// The offset (service time in ms minus ms since `anchor`) lies between `low` and `high`.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i64,
    high: i64,
    /// When they were last narrowed, in ms since `anchor`.
    at: i64,
}

impl ServiceClock {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::starting_at(machine_now())
    }

    /// Takes `time` for the service's time until an answer says otherwise.
    pub(crate) fn starting_at(time: Timestamp) -> Self {
        Self {
            anchor: Instant::now(),
            local_at_anchor: i64::try_from(time.as_millis()).unwrap_or(0),
            state: Mutex::new(State::default()),
        }
    }

    /// The service's time as well as it is known.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = self.since_anchor(Instant::now());
        let mut state = self.lock();
        let estimate = self.offset(state.bounds).saturating_add(elapsed);
        if estimate > state.last || state.last - estimate > STANDSTILL_MS {
            state.last = estimate;
        }
        Timestamp::from_millis(u64::try_from(state.last).unwrap_or(0))
    }

    /// How far [`now`](Self::now) can be off; `None` before the first answer.
    pub(crate) fn uncertainty(&self) -> Option<Duration> {
        let bounds = self.lock().bounds?;
        let offset = self.offset(Some(bounds));
        let furthest = (bounds.high - offset).max(offset - bounds.low);
        u64::try_from(furthest).ok().map(Duration::from_millis)
    }

    /// How far the service's clock is ahead of the machine's as it was read first; `None` before the first answer.
    pub(crate) fn ahead_of_machine(&self) -> Option<i64> {
        let bounds = self.lock().bounds?;
        Some(self.offset(Some(bounds)) - self.local_at_anchor)
    }

    fn offset(&self, bounds: Option<Bounds>) -> i64 {
        bounds.map_or(self.local_at_anchor, |bounds| {
            self.local_at_anchor.clamp(bounds.low, bounds.high)
        })
    }

    /// The service's time for `x-ms-date`, in the form of RFC 9110.
    pub(crate) fn http_date(&self) -> String {
        http_date_of(self.now())
    }

    /// Learns from the `Date` of an answer.
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
    /// What both say; the newer alone when they contradict each other, since then some clock was set.
    fn narrowed(self, seen: Self) -> Self {
        let drift = (seen.at - self.at).max(0) * DRIFT_PPM / 1_000_000;
        let low = (self.low - drift).max(seen.low);
        let high = (self.high + drift).min(seen.high);
        if low <= high {
            Self {
                low,
                high,
                // Drift is taken off in whole milliseconds: what is not yet one stays to be counted.
                at: if drift > 0 { seen.at } else { self.at },
            }
        } else {
            seen
        }
    }
}

/// What this machine's clock shows now, right or wrong: to make sense of times that were read from it. Everything else goes
/// by the service's clock, [`CosmosClient::now`](crate::CosmosClient::now).
///
/// ```
/// use std::time::Duration;
/// use cdb_client::machine_now;
///
/// // A library says when by this machine's clock; how long that still is, only the same clock tells.
/// let fire_at = machine_now() + Duration::from_secs(5);
/// let left = fire_at.since(machine_now());
/// assert!(left <= Duration::from_secs(5) && left > Duration::from_secs(4));
/// ```
pub fn machine_now() -> Timestamp {
    Timestamp::from_millis(u64::try_from(system_millis()).unwrap_or(0))
}

/// A time in the form of RFC 9110, whole seconds. One behind the year 9999, as a wrong clock or a stored cursor can have, is
/// that year's end.
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
    reason = "the first request needs some date, and no answer has told the service's yet"
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

    /// A machine whose clock is `ahead` milliseconds ahead of a service where it is `NOON` now.
    fn machine(ahead: i64) -> ServiceClock {
        ServiceClock {
            local_at_anchor: NOON + ahead,
            ..ServiceClock::new()
        }
    }

    /// Lets the service answer at these times, its clock `moved` milliseconds.
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

    /// How far the clock is ahead of the service.
    fn ahead(clock: &ServiceClock) -> i64 {
        let now = i64::try_from(clock.now().as_millis()).unwrap();
        now - NOON - clock.since_anchor(Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_keeps_time_is_not_corrected() {
        let clock = machine(3);
        busy(&clock);
        assert_eq!(ahead(&clock), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_corrects_to_a_second() {
        for wrong in [-86_400_000, 86_400_000] {
            let clock = machine(wrong);
            answered(&clock, [100, 102, 104], 0);
            assert!(ahead(&clock).abs() <= 1004, "ahead by {} ms", ahead(&clock));
            let told = clock.ahead_of_machine().unwrap();
            assert!((told + wrong).abs() <= 1004, "told {told} ms");
            assert!(clock.uncertainty().unwrap() <= Duration::from_millis(1004));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_answers_correct_to_about_a_round_trip() {
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
    async fn nonsense_in_the_date_is_ignored() {
        let clock = machine(0);
        let now = clock.anchor;
        clock.observe(now, now, "yesterday");
        assert_eq!(clock.uncertainty(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_at_the_end_of_all_years_brings_nobody_down() {
        let clock = machine(0);
        let (sent, received) = (clock.anchor, clock.anchor + Duration::from_millis(5));
        clock.observe(sent, received, "Fri, 31 Dec 9999 23:59:59 GMT");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.http_date(), "Fri, 31 Dec 9999 23:59:59 GMT");
        let never = http_date_of(Timestamp::from_millis(u64::MAX));
        assert_eq!(never, clock.http_date());
    }

    #[tokio::test(start_paused = true)]
    async fn dates_for_signing_have_the_form_of_http() {
        assert_eq!(machine(0).http_date(), "Fri, 14 Jul 2017 02:40:00 GMT");
    }
}
