//! The throughput governor of a container: background requests wait while the container has no
//! request units for them.
//!
//! A token bucket counts what this process spends of its share of the container's RU/s, once the
//! offer has been read. A throttled request, of this process or because of others, pauses background
//! requests too. Foreground requests report their charges and never wait.
//!
//! Until a request is throttled, nothing waits and nothing is read: a container with free throughput
//! pays nothing for the governor.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The pause after a throttled request. It doubles while requests are throttled after the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The time without a throttled request after which the next pause is half as long.
const HALVED_AFTER: Duration = Duration::from_secs(1);

/// The longest time between two background requests, if one waits: they progress also while others
/// take all the throughput. The longest pause, too.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The time for which an offer is not read again. Requests for offers share a small budget of the
/// account.
const OFFER_INTERVAL: Duration = Duration::from_secs(600);

/// The unspent throughput that is kept, as time: background requests do not spend a whole second at
/// once, because that would throttle the others of this second.
const BURST: f64 = 0.1;

/// The expected charge of the first background request, in request units.
const FIRST_CHARGE: f64 = 10.0;

/// The weight of a charge in the expected charge of the next request.
const WEIGHT: f64 = 0.125;

/// Decides when background requests of a container are sent.
#[derive(Debug)]
pub(crate) struct Governor {
    pace: Mutex<Pace>,
    /// Background requests that wait do so in this order.
    line: tokio::sync::Mutex<()>,
}

/// What this process knows of the container's throughput.
#[derive(Debug)]
struct Pace {
    share: f64,
    /// The request units per second of this process; `None` until the offer was read.
    rate: Option<f64>,
    /// The request units that may be spent now; negative after too many were.
    left: f64,
    /// The time of `left`.
    at: Instant,
    pause: Duration,
    /// The end of the last pause.
    paused_until: Option<Instant>,
    /// When the offer may be read again; `None` before the first throttled request.
    offer_at: Option<Instant>,
    expected_charge: f64,
}

/// A background request that may be sent. Its expected charge is set aside until its end.
#[derive(Debug)]
#[must_use = "the request of an admission is sent while it is held"]
pub(crate) struct Admission<'a> {
    governor: &'a Governor,
    reserved: f64,
}

impl Pace {
    fn new(share: f64, now: Instant) -> Self {
        Self {
            share,
            rate: None,
            left: 0.0,
            at: now,
            pause: Duration::ZERO,
            paused_until: None,
            offer_at: None,
            expected_charge: FIRST_CHARGE,
        }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        if let Some(rate) = self.rate {
            self.left = (self.left + passed * rate).min(rate * BURST);
        }
    }

    /// Counts a charge. A debt is at most a second's, so that it does not outlast a burst of others.
    fn spend(&mut self, charge: f64, now: Instant) {
        self.refill(now);
        if let Some(rate) = self.rate {
            self.left = (self.left - charge).max(-rate);
        }
    }

    /// Pauses background requests. Throttled requests during a pause belong to its cause.
    fn throttled(&mut self, now: Instant) {
        self.offer_at.get_or_insert(now);
        let quiet = match self.paused_until {
            Some(until) if now < until => return,
            Some(until) => now - until,
            None => Duration::MAX,
        };
        let halvings = quiet.as_secs() / HALVED_AFTER.as_secs();
        let halved = u32::try_from(halvings)
            .ok()
            .and_then(|halvings| 2_u32.checked_pow(halvings))
            .map_or(Duration::ZERO, |divisor| self.pause / divisor);
        self.pause = (halved * 2).clamp(FIRST_PAUSE, LONGEST_WAIT);
        self.paused_until = Some(now + self.pause);
    }

    /// Returns how long a background request waits.
    fn delay(&mut self, now: Instant) -> Duration {
        self.refill(now);
        let debt = match self.rate {
            // Rounded up, or a request would wait again for the rest.
            Some(rate) if self.left <= 0.0 => {
                Duration::from_secs_f64(-self.left / rate) + Duration::from_millis(1)
            }
            _ => Duration::ZERO,
        };
        let pause = self.paused_until.unwrap_or(now);
        debt.max(pause.saturating_duration_since(now))
    }

    /// Learns the container's RU/s.
    fn learn(&mut self, throughput: f64, now: Instant) {
        self.refill(now);
        self.rate = Some(throughput * self.share);
    }

    /// Sets the expected charge of a request aside.
    fn reserve(&mut self, now: Instant) -> f64 {
        self.spend(self.expected_charge, now);
        self.rate.map_or(0.0, |_| self.expected_charge)
    }
}

impl Governor {
    /// Creates the governor of a process that uses up to this share of the container's RU/s.
    pub(crate) fn new(share: f64) -> Self {
        Self {
            pace: Mutex::new(Pace::new(share, Instant::now())),
            line: tokio::sync::Mutex::default(),
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        // The state is valid between any two statements, so a panic elsewhere does not corrupt it.
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the charge of an answer.
    pub(crate) fn spent(&self, charge: f64) {
        self.pace().spend(charge, Instant::now());
    }

    /// Notes that the container has throttled a request.
    pub(crate) fn throttled(&self) {
        self.pace().throttled(Instant::now());
    }

    /// Whether the caller should read the offer: a request was throttled, and the offer was not read
    /// for a while. One caller at a time reads it.
    pub(crate) fn wants_offer(&self) -> bool {
        let now = Instant::now();
        let mut pace = self.pace();
        let wanted = pace.offer_at.is_some_and(|at| at <= now)
            && pace.paused_until.is_some_and(|until| now < until);
        if wanted {
            pace.offer_at = Some(now + OFFER_INTERVAL);
        }
        wanted
    }

    /// Learns the RU/s of the container.
    pub(crate) fn learn(&self, throughput: f64) {
        self.pace().learn(throughput, Instant::now());
    }

    /// Waits until a background request may be sent, at most [`LONGEST_WAIT`] after the one before
    /// it in the line.
    pub(crate) async fn admit(&self) -> Admission<'_> {
        let waits = {
            let pace = self.pace();
            pace.rate.is_some() || pace.paused_until.is_some()
        };
        if waits {
            let _first_in_line = self.line.lock().await;
            let latest = Instant::now() + LONGEST_WAIT;
            loop {
                let now = Instant::now();
                let delay = self.pace().delay(now);
                let delay = delay.min(latest.saturating_duration_since(now));
                if delay.is_zero() {
                    break;
                }
                sleep(delay).await;
            }
            return self.reserve();
        }
        self.reserve()
    }

    fn reserve(&self) -> Admission<'_> {
        Admission {
            governor: self,
            reserved: self.pace().reserve(Instant::now()),
        }
    }
}

impl Admission<'_> {
    /// Notes the charge of the request.
    pub(crate) fn ended(self, charge: f64) {
        let mut pace = self.governor.pace();
        pace.expected_charge += (charge - pace.expected_charge) * WEIGHT;
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        // The charge itself was counted with its answer.
        self.governor.pace().left += self.reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn waited(governor: &Governor) -> Duration {
        let begun = Instant::now();
        drop(governor.admit().await);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_until_a_request_is_throttled() {
        let governor = Governor::new(0.8);
        for _ in 0..100 {
            governor.spent(1_000_000.0);
            assert_eq!(waited(&governor).await, Duration::ZERO);
        }
        assert!(!governor.wants_offer());
    }

    #[tokio::test(start_paused = true)]
    async fn background_requests_get_what_others_leave_of_the_share() {
        let governor = Governor::new(0.8);
        governor.learn(1000.0);
        let begun = Instant::now();
        let mut spent = 0.0;
        while begun.elapsed() < SECOND * 10 {
            // The others spend 700 RU/s, in this loop with each background request of 10 RU.
            let before = Instant::now();
            let admission = governor.admit().await;
            governor.spent(10.0);
            admission.ended(10.0);
            spent += 10.0;
            governor.spent(700.0 * before.elapsed().as_secs_f64());
        }
        assert!((900.0..1150.0).contains(&spent), "{spent} RU in 10 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_background_request_is_sent_every_five_seconds_while_others_take_everything() {
        let governor = std::sync::Arc::new(Governor::new(0.8));
        governor.learn(1000.0);
        let others = governor.clone();
        let others = tokio::spawn(async move {
            loop {
                others.spent(200.0);
                others.throttled();
                sleep(SECOND / 10).await;
            }
        });
        sleep(SECOND).await;
        for _ in 0..5 {
            assert_eq!(waited(&governor).await, LONGEST_WAIT);
        }
        let all = std::array::from_fn::<_, 4, _>(|_| waited(&governor));
        let longest = futures::future::join_all(all).await.into_iter().max();
        assert_eq!(longest, Some(LONGEST_WAIT * 4), "one after the other");
        others.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_doubles_while_requests_are_throttled_after_it_and_decays() {
        let governor = Governor::new(0.8);
        for millis in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            governor.throttled();
            governor.throttled();
            assert_eq!(waited(&governor).await, Duration::from_millis(millis));
        }
        sleep(SECOND * 3).await;
        governor.throttled();
        assert_eq!(waited(&governor).await, SECOND * 10 / 8);
        sleep(SECOND * 60).await;
        governor.throttled();
        assert_eq!(waited(&governor).await, FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_offer_is_read_once_after_a_throttled_request_and_again_after_ten_minutes() {
        let governor = Governor::new(0.8);
        governor.throttled();
        assert!(governor.wants_offer() && !governor.wants_offer());
        sleep(OFFER_INTERVAL).await;
        assert!(!governor.wants_offer(), "nothing is throttled any more");
        governor.throttled();
        assert!(governor.wants_offer() && !governor.wants_offer());
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_set_their_expected_charges_aside() {
        let governor = Governor::new(1.0);
        governor.learn(1000.0);
        sleep(SECOND).await;
        // 100 RU are left, for ten requests of 10 RU. A dropped request gives its part back.
        let begun = Instant::now();
        let mut sent = Vec::new();
        for _ in 0..10 {
            sent.push(governor.admit().await);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(!waited(&governor).await.is_zero());
        sent.clear();
        assert_eq!(waited(&governor).await, Duration::ZERO);
    }
}
