//! The service's clock, estimated from the `Date` of its answers. The only module that reads the system's clock.
//!
//! `Date` has whole seconds, so one answer only says: between sending and receiving it, the service's clock was inside
//! that second. Each answer therefore bounds the offset from both sides, and the bounds of many answers together are
//! as narrow as a round trip. Offsets are taken against a monotonic clock: setting the machine's clock changes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cdb_model::Timestamp;
use tokio::time::Instant;

/// How far two sound clocks may drift apart, in millionths.
const DRIFT_PPM: i64 = 100;

/// An estimate of the service's clock.
#[derive(Debug)]
pub(crate) struct ServiceClock {
    anchor: Instant,
    /// The machine's time at `anchor`; counts only until the first answer.
    local_at_anchor: i64,
    bounds: Mutex<Option<Bounds>>,
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
    pub(crate) fn new() -> Self {
        Self {
            anchor: Instant::now(),
            local_at_anchor: system_millis(),
            bounds: Mutex::new(None),
        }
    }

    /// The service's time as well as it is known.
    pub(crate) fn now(&self) -> Timestamp {
        let bounds = *self.lock();
        let offset = bounds.map_or(self.local_at_anchor, |bounds| {
            bounds.low.midpoint(bounds.high)
        });
        let now = offset.saturating_add(self.since_anchor(Instant::now()));
        Timestamp::from_millis(u64::try_from(now).unwrap_or(0))
    }

    /// How far [`now`](Self::now) can be off; `None` before the first answer.
    pub(crate) fn uncertainty(&self) -> Option<Duration> {
        let bounds = (*self.lock())?;
        u64::try_from((bounds.high - bounds.low) / 2)
            .ok()
            .map(Duration::from_millis)
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
        let mut bounds = self.lock();
        *bounds = Some(match *bounds {
            Some(known) => known.narrowed(seen),
            None => seen,
        });
    }

    fn since_anchor(&self, instant: Instant) -> i64 {
        let millis = instant.saturating_duration_since(self.anchor).as_millis();
        i64::try_from(millis).unwrap_or(i64::MAX / 4)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Bounds>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A time in the form of RFC 9110, whole seconds.
pub(crate) fn http_date_of(time: Timestamp) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(time.as_millis()))
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

    const NOON: u64 = 1_500_000_000_000;

    /// Lets the service, whose clock shows `NOON` at the anchor, answer at these times.
    fn answered(clock: &ServiceClock, sent_ms: u64, served_ms: u64, received_ms: u64) {
        let at = |ms| clock.anchor + Duration::from_millis(ms);
        let date = UNIX_EPOCH + Duration::from_millis(NOON + served_ms);
        clock.observe(at(sent_ms), at(received_ms), &httpdate::fmt_http_date(date));
    }

    fn off_by(clock: &ServiceClock) -> u64 {
        let elapsed = u64::try_from(clock.anchor.elapsed().as_millis()).unwrap();
        clock.now().as_millis().abs_diff(NOON + elapsed)
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_is_known_to_half_a_second() {
        let clock = ServiceClock::new();
        answered(&clock, 100, 102, 104);
        assert!(off_by(&clock) <= 500, "off by {} ms", off_by(&clock));
        assert!(clock.uncertainty().unwrap() <= Duration::from_millis(503));
    }

    #[tokio::test(start_paused = true)]
    async fn many_answers_are_known_to_about_a_round_trip() {
        let clock = ServiceClock::new();
        for n in 0..200_u64 {
            answered(&clock, n * 137, n * 137 + 2, n * 137 + 5);
        }
        assert!(off_by(&clock) <= 12, "off by {} ms", off_by(&clock));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_clock_that_was_set_is_followed_at_once() {
        let clock = ServiceClock::new();
        for n in 0..50_u64 {
            answered(&clock, n * 137, n * 137 + 2, n * 137 + 5);
        }
        answered(&clock, 10_000, 10_002 + 60_000, 10_005);
        let moved = clock.now().as_millis() - NOON;
        assert!((59_400..=60_600).contains(&moved), "{moved}");
    }

    #[tokio::test(start_paused = true)]
    async fn nonsense_in_the_date_is_ignored() {
        let clock = ServiceClock::new();
        let now = clock.anchor;
        clock.observe(now, now, "yesterday");
        assert_eq!(clock.uncertainty(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn dates_for_signing_have_the_form_of_http() {
        let clock = ServiceClock::new();
        answered(&clock, 0, 0, 0);
        assert!(clock.http_date().starts_with("Fri, 14 Jul 2017 02:40:0"));
    }
}
