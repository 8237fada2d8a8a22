//! Between two attempts: the delay, the region of the next attempt, and whether there is time for it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, ErrorKind, ResponseStatus, Result};
use crate::protocol::{Outcome, Repeat};
use crate::retry::call::Call;
use crate::retry::{Pipeline, Retry, telemetry, time_left};

impl Pipeline {
    /// Prepares another attempt, in another region if one can serve the request. Returns the delay
    /// before it.
    pub(super) async fn prepare_retry(
        &self,
        call: &mut Call<'_>,
        retry: Retry,
        outcome: Outcome,
    ) -> Duration {
        let delay = match retry {
            Retry::Signed => {
                call.tries.unauthorized += 1;
                Duration::ZERO
            }
            Retry::After(_) if self.has_fallback(call, outcome).await => Duration::ZERO,
            Retry::After(delay) => call.backoff.delay(delay),
            Retry::Rerouted if self.reroute(call, outcome).await => Duration::ZERO,
            Retry::Slowly | Retry::Rerouted => call.slow.delay(None),
        };
        // A 403 concerns the date or the account: another key or token would not help.
        if let (Outcome::Answered { status, .. }, Some(used)) = (outcome, &call.authorization)
            && status.code == 401
        {
            self.parts.credential.refused(used);
        }
        delay
    }

    /// Whether the deadline leaves no time for an attempt after this delay.
    pub(super) fn lacks_time(&self, call: &Call<'_>, delay: Duration) -> bool {
        let needed = delay.saturating_add(self.least_time(call));
        call.started.elapsed().saturating_add(needed) >= call.deadline
    }

    /// The shortest time in which an attempt is worth sending. A write that must not be repeated
    /// would otherwise end with an unknown outcome for lack of time.
    pub(super) fn least_time(&self, call: &Call<'_>) -> Duration {
        const LEAST: Duration = Duration::from_secs(1);
        match call.request.repeat {
            Repeat::IfNotExecuted => LEAST.min(self.parts.retry.deadline / 30),
            Repeat::Always => Duration::ZERO,
        }
    }

    /// Waits before another request for an authorization, if the service has accepted such a
    /// request before: a failed token fetch is then probably temporary.
    pub(super) async fn wait_for_authorization(
        &self,
        call: &mut Call<'_>,
        error: Error,
    ) -> Result<()> {
        let delay = call.slow.delay(None);
        let temporary = matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::Unauthorized
        );
        if !temporary || !call.tries.granted || call.remaining() <= delay {
            return Err(error);
        }
        tracing::debug!(%error, ?delay, "authorization is requested again");
        sleep(delay).await;
        Ok(())
    }
}

impl Call<'_> {
    /// Waits before the next attempt.
    pub(super) async fn wait(&mut self, delay: Duration, outcome: Outcome) {
        telemetry::retrying(&outcome, self.attempts, delay);
        if let (Some(watch), Outcome::Answered { status, .. }) = (self.observers.watch, outcome) {
            watch.answered(status);
        }
        sleep(delay).await;
        self.wait_in_background(outcome).await;
    }

    /// Waits for the governor after a background request was throttled. The wait is not part of the
    /// time for its attempts.
    async fn wait_in_background(&mut self, outcome: Outcome) {
        let throttled = matches!(outcome, Outcome::Answered { status, .. } if status.code == 429);
        if let Some(governor) = self.observers.governor
            && self.observers.is_background
            && throttled
        {
            let begun = Instant::now();
            // Without an admission, the next attempt is the last one.
            drop(timeout(time_left(), governor.admit()).await);
            let deadline = self.deadline.saturating_add(begun.elapsed());
            self.deadline = deadline.min(self.longest);
        }
    }

    /// Forgets session tokens that no replica satisfied until the deadline. A replica lags for a
    /// moment only, so another process has deleted and re-created the container, and the tokens
    /// belong to the old one.
    pub(super) fn forget_unsatisfiable_session(&self, outcome: Outcome) {
        let lagging = matches!(outcome, Outcome::Answered { status, .. } if status == ResponseStatus::SESSION_NOT_AVAILABLE);
        if let (true, Some(sessions)) = (lagging, self.observers.sessions) {
            sessions.clear();
        }
    }
}
