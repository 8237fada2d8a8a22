//! The throughput governor of a container: background requests wait while the container has no
//! request units for them.
//!
//! A throttled request shows the container's limit: what this process spends at that moment is what
//! the container has for it, beside other processes. From then on a token bucket counts the
//! charges of all requests, and background requests wait for a share of that throughput. They also
//! pause after a throttled request. Foreground requests report their charges and never wait. The
//! estimate grows until a request is throttled again.
//!
//! The offer is not read: it says nothing about other processes, few identities may read it, and its
//! requests share a small budget of the account. Until a request is throttled, nothing waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The pause after a throttled request. It doubles while requests are throttled after the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The time without a throttled request after which the next pause is half as long.
const HALVED_AFTER: Duration = Duration::from_secs(1);

/// The longest time between two background requests, if one waits: they progress also while others
/// take all the throughput. The longest pause, too.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The time in seconds over which spending is averaged.
const AVERAGED_OVER: f64 = 1.0;

/// The growth of the estimate per second without a throttled request. It doubles in 35 s.
const GROWTH: f64 = 0.02;

/// The lowest estimate, in RU/s, of a process that spends little while others are throttled.
const LEAST: f64 = 100.0;

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
    /// The RU/s that the container has for this process; `None` until a request is throttled.
    throughput: Option<f64>,
    /// The RU/s that this process spends.
    spending: f64,
    /// The request units that may be spent now; negative after too many were.
    left: f64,
    /// The time of `left`.
    at: Instant,
    pause: Duration,
    /// The end of the last pause.
    paused_until: Option<Instant>,
    expected_charge: f64,
}

/// A background request that may be sent. Its expected charge is set aside until its end.
#[derive(Debug)]
#[must_use = "the request of an admission is sent while it is held"]
pub(crate) struct Admission {
    governor: Arc<Governor>,
    reserved: f64,
}

impl Pace {
    fn new(share: f64, now: Instant) -> Self {
        Self {
            share,
            throughput: None,
            spending: 0.0,
            left: 0.0,
            at: now,
            pause: Duration::ZERO,
            paused_until: None,
            expected_charge: FIRST_CHARGE,
        }
    }

    /// Returns the RU/s that this process may spend with background requests.
    fn rate(&self) -> Option<f64> {
        Some(self.throughput? * self.share)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.spending *= (-passed / AVERAGED_OVER).exp();
        if let Some(throughput) = &mut self.throughput {
            *throughput = (*throughput * (passed * GROWTH).exp()).min(f64::from(u32::MAX));
        }
        if let Some(rate) = self.rate() {
            self.left = (self.left + passed * rate).min(rate * BURST);
        }
    }

    /// Counts a charge. A debt is at most a second's, so that it does not outlast a burst of others.
    fn spend(&mut self, charge: f64, now: Instant) {
        self.refill(now);
        self.spending += charge / AVERAGED_OVER;
        let _counted = self.take(charge);
    }

    /// Takes request units from the budget. Returns those that were taken.
    fn take(&mut self, charge: f64) -> f64 {
        let before = self.left;
        if let Some(rate) = self.rate() {
            self.left = (before - charge).max(before.min(-rate));
        }
        before - self.left
    }

    /// Learns the throughput, and pauses background requests. Throttled requests during a pause
    /// belong to its cause.
    fn throttled(&mut self, now: Instant) {
        self.refill(now);
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
        let half = self.throughput.unwrap_or_default() / 2.0;
        self.throughput = Some(self.spending.max(half).max(LEAST));
    }

    /// Returns how long a background request waits, or takes its expected charge. A request that
    /// may not wait any longer takes it too.
    fn admit(&mut self, now: Instant, latest: Instant) -> Result<f64, Duration> {
        let delay = self.delay(now);
        let delay = delay.min(latest.saturating_duration_since(now));
        if delay.is_zero() {
            Ok(self.take(self.expected_charge))
        } else {
            Err(delay)
        }
    }

    fn delay(&mut self, now: Instant) -> Duration {
        self.refill(now);
        let debt = match self.rate() {
            // Rounded up, or a request would wait again for the rest.
            Some(rate) if self.left <= 0.0 => {
                Duration::from_secs_f64(-self.left / rate) + Duration::from_millis(1)
            }
            _ => Duration::ZERO,
        };
        let pause = self.paused_until.unwrap_or(now);
        debt.max(pause.saturating_duration_since(now))
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

    /// Waits until a background request may be sent, at most [`LONGEST_WAIT`] after the one before
    /// it in the line.
    pub(crate) async fn admit(self: &Arc<Self>) -> Admission {
        let knows_a_limit = self.pace().throughput.is_some();
        if knows_a_limit {
            // In a task of its own, which ends when this future is dropped: a caller may keep this
            // future without polling it, and would then hold the line.
            let mut turn = JoinSet::new();
            turn.spawn(self.clone().turn());
            if let Some(Ok(admission)) = turn.join_next().await {
                return admission;
            }
        }
        Admission {
            governor: self.clone(),
            reserved: 0.0,
        }
    }

    async fn turn(self: Arc<Self>) -> Admission {
        let first_in_line = self.line.lock().await;
        let latest = Instant::now() + LONGEST_WAIT;
        let reserved = loop {
            let admitted = self.pace().admit(Instant::now(), latest);
            match admitted {
                Ok(reserved) => break reserved,
                Err(delay) => sleep(delay).await,
            }
        };
        drop(first_in_line);
        Admission {
            governor: self,
            reserved,
        }
    }
}

impl Admission {
    /// Notes the charge of the request.
    pub(crate) fn ended(self, charge: f64) {
        let mut pace = self.governor.pace();
        pace.expected_charge += (charge - pace.expected_charge) * WEIGHT;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        // The charge itself was counted with its answer.
        self.governor.pace().left += self.reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn waited(governor: &Arc<Governor>) -> Duration {
        let begun = Instant::now();
        drop(governor.admit().await);
        begun.elapsed()
    }

    /// Returns a governor whose container throttled this process at 1,000 RU/s. The pause is over.
    async fn throttled_at_1000(share: f64) -> Arc<Governor> {
        let governor = Arc::new(Governor::new(share));
        governor.spent(1000.0);
        governor.throttled();
        drop(governor.admit().await);
        governor
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_until_a_request_is_throttled() {
        let governor = Arc::new(Governor::new(0.8));
        for _ in 0..100 {
            governor.spent(1_000_000.0);
            assert_eq!(waited(&governor).await, Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn background_requests_get_what_others_leave_of_the_share() {
        let governor = throttled_at_1000(0.8).await;
        let begun = Instant::now();
        let mut spent = 0.0;
        while begun.elapsed() < SECOND * 3 {
            // The others spend 700 RU/s.
            let before = Instant::now();
            let admission = governor.admit().await;
            governor.spent(10.0 + 700.0 * before.elapsed().as_secs_f64());
            admission.ended(10.0);
            if begun.elapsed() > SECOND * 2 {
                spent += 10.0;
            }
        }
        // 80 % of an estimate that has grown by 5 %, less 700.
        assert!((120.0..160.0).contains(&spent), "{spent} RU/s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_background_request_is_sent_every_five_seconds_while_others_take_everything() {
        let governor = throttled_at_1000(0.8).await;
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
        let governor = Arc::new(Governor::new(0.8));
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
    async fn an_estimate_grows_without_throttled_requests_and_is_halved_at_most() {
        let governor = throttled_at_1000(0.8).await;
        let estimate = || governor.pace().throughput.unwrap_or_default();
        assert!((990.0..1010.0).contains(&estimate()), "{}", estimate());
        sleep(SECOND * 35).await;
        governor.spent(0.0);
        assert!((1950.0..2050.0).contains(&estimate()), "{}", estimate());
        governor.throttled();
        assert!((950.0..1050.0).contains(&estimate()), "{}", estimate());
        for _ in 0..10 {
            drop(governor.admit().await);
            governor.throttled();
        }
        assert!((estimate() - LEAST).abs() < 1.0, "{}", estimate());
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_set_their_expected_charges_aside() {
        let governor = throttled_at_1000(1.0).await;
        sleep(SECOND * 3).await;
        // About 100 RU are left, for ten requests of 10 RU. Ended requests give their parts back.
        let begun = Instant::now();
        let mut sent = Vec::new();
        for _ in 0..10 {
            sent.push(governor.admit().await);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        sent.push(governor.admit().await);
        assert!(!waited(&governor).await.is_zero());
        sent.clear();
        assert_eq!(waited(&governor).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_its_caller_does_not_poll_holds_up_no_other() {
        let governor = throttled_at_1000(0.8).await;
        governor.spent(1000.0);
        let mut kept = Box::pin(governor.admit());
        assert!(futures::poll!(&mut kept).is_pending());
        let admitted = tokio::time::timeout(LONGEST_WAIT * 3, governor.admit()).await;
        assert!(admitted.is_ok());
    }
}
