//! The retry loop: sign, send, decide, wait. Its callers see one call with one result.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use http::HeaderValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::clock::ServiceClock;
use crate::credential::Credential;
use crate::error::{Error, ErrorKind, RequestKind, Result};
use crate::partitions::SessionTokens;
use crate::protocol::{Accepted, Outcome, Repeat, Request, Response};
use crate::regions::Regions;
use crate::retry::call::{Call, Observers};
use crate::retry::right::Right;
use crate::retry::telemetry;
use crate::retry::{Backoff, Jitter, RetryConfig, Tries, Verdict, time_left, verdict};
use crate::throughput::{BackgroundConfig, Meter};
use crate::transport::{Delivery, Transport, TransportError};

/// The settings and dependencies of a pipeline.
#[derive(Debug)]
pub(crate) struct PipelineParts {
    /// `https://account.documents.azure.com:443`, without a trailing slash.
    pub endpoint: String,
    pub user_agent: HeaderValue,
    pub transport: Arc<dyn Transport>,
    pub credential: Arc<dyn Credential>,
    pub retry: RetryConfig,
    pub background: BackgroundConfig,
    pub preferred_regions: Vec<String>,
    /// The most concurrent requests.
    pub connections: usize,
    pub jitter: Jitter,
}

/// Sends requests of one account.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) parts: PipelineParts,
    pub(super) regions: Regions,
    connections: Semaphore,
    /// The rights that the service has accepted.
    granted: RwLock<BTreeSet<Right>>,
    pub clock: ServiceClock,
    pub meter: Meter,
}

impl Pipeline {
    #[cfg(test)]
    pub(crate) fn new(parts: PipelineParts) -> Self {
        Self::with_clock(parts, ServiceClock::new())
    }

    pub(crate) fn with_clock(parts: PipelineParts, clock: ServiceClock) -> Self {
        let preferred = parts.preferred_regions.clone();
        Self {
            regions: Regions::new(&parts.endpoint, preferred),
            connections: Semaphore::new(parts.connections.min(Semaphore::MAX_PERMITS)),
            granted: RwLock::default(),
            parts,
            clock,
            meter: Meter::default(),
        }
    }

    pub(crate) fn retry_config(&self) -> &RetryConfig {
        &self.parts.retry
    }

    /// Whether the endpoint is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.regions.is_local()
    }

    /// Returns the delays of a new call.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(&self.parts.retry, self.parts.jitter.clone())
    }

    /// Returns the delays of a new call after answers about a moving partition.
    pub(crate) fn slow_backoff(&self) -> Backoff {
        Backoff::slow(&self.parts.retry, self.parts.jitter.clone())
    }

    /// As [`send_observed`](Self::send_observed), with session tokens only.
    pub(crate) async fn send(
        &self,
        request: &Request,
        sessions: Option<&SessionTokens>,
    ) -> Result<Accepted> {
        let observers = Observers {
            sessions,
            ..Observers::default()
        };
        self.send_observed(request, observers).await
    }

    /// Sends `request` until it has a result. Reads session tokens from the observers.
    ///
    /// # Errors
    /// When the service refuses the request or does not answer; [`Error::is_ambiguous`] when a
    /// write may have taken effect.
    pub(crate) async fn send_observed(
        &self,
        request: &Request,
        observers: Observers<'_>,
    ) -> Result<Accepted> {
        let mut call = self.call(request, observers);
        let span = telemetry::call_span(request);
        let result = {
            use tracing::Instrument as _;
            // Boxed, because every future of a caller contains it. Without its type, so that the
            // compiler need not look into it for every task that a caller spawns.
            let sent: BoxFuture<'_, _> = Box::pin(self.send_with_retries(&mut call));
            sent.instrument(span.clone()).await
        };
        telemetry::call_ended(
            &span,
            request,
            call.attempts,
            call.charge,
            call.started.elapsed(),
            &result,
        );
        result
    }

    /// Creates the state of a call before its first attempt.
    pub(super) fn call<'a>(&self, request: &'a Request, observers: Observers<'a>) -> Call<'a> {
        let longest = time_left();
        Call {
            request,
            sessions: observers.sessions,
            watch: observers.watch,
            governor: observers.governor,
            is_background: observers.is_background,
            activity_id: Uuid::new_v4().to_string(),
            started: Instant::now(),
            deadline: self.parts.retry.deadline.min(longest),
            longest,
            attempts: 0,
            charge: 0.0,
            unknown_outcome: false,
            tries: Tries {
                unauthorized: 0,
                addressed_to_range: request.range().is_some(),
                ..Tries::default()
            },
            backoff: self.backoff(),
            slow: self.slow_backoff(),
            endpoint: Arc::default(),
            skipped: Vec::new(),
        }
    }

    async fn send_with_retries(&self, call: &mut Call<'_>) -> Result<Accepted> {
        if call.longest.is_zero() {
            let message = "the request was not sent, because the deadline of its call has passed";
            return Err(Error::new(ErrorKind::Unavailable, message.to_owned()));
        }
        loop {
            call.attempts += 1;
            call.tries.granted = self.has_granted(call.request.kind);
            self.choose_endpoint(call).await;
            let limit = call.remaining().saturating_sub(self.least_time(call));
            let Ok(connection) = timeout(limit, self.connections.acquire()).await else {
                return Err(call.refused(Err(no_connection())));
            };
            let attempt = self.attempt(call).await;
            drop(connection);
            let (answer, authorization) = match attempt {
                Ok(attempted) => attempted,
                Err(error) => {
                    self.wait_for_authorization(call, error).await?;
                    continue;
                }
            };
            let outcome = outcome_of(&answer);
            self.note_writes(call, outcome);
            call.unknown_outcome |= outcome.is_doubtful() && !call.request.kind.is_read();
            call.note(outcome, &self.parts.retry);
            let delay = match verdict(call.request.repeat, call.tries, outcome) {
                Verdict::Accept => {
                    self.grant(call.request.kind);
                    return call.accepted(answer);
                }
                Verdict::Refuse | Verdict::RefuseAmbiguous => return Err(call.refused(answer)),
                Verdict::RetrySigned => {
                    call.tries.unauthorized += 1;
                    Duration::ZERO
                }
                Verdict::RetryAfter(_) if self.has_fallback(call, outcome).await => Duration::ZERO,
                Verdict::RetryAfter(delay) => call.backoff.delay(delay),
                Verdict::Reroute if self.reroute(call, outcome).await => Duration::ZERO,
                Verdict::RetrySlowly | Verdict::Reroute => call.slow.delay(None),
            };
            // A 403 concerns the date or the account: another key or token would not help.
            if matches!(outcome, Outcome::Answered { status, .. } if status.code == 401) {
                self.parts.credential.refused(&authorization);
            }
            let needed = delay.saturating_add(self.least_time(call));
            if call.started.elapsed().saturating_add(needed) >= call.deadline {
                call.forget_unsatisfiable_session(outcome);
                return Err(call.refused(answer));
            }
            telemetry::retrying(&outcome, call.attempts, delay);
            if let (Some(watch), Outcome::Answered { status, .. }) = (call.watch, outcome) {
                watch.answered(status);
            }
            sleep(delay).await;
            call.wait_in_background(outcome).await;
        }
    }

    /// Waits before another request for an authorization, if the service has accepted such a
    /// request before: a failed token fetch is then probably temporary.
    async fn wait_for_authorization(&self, call: &mut Call<'_>, error: Error) -> Result<()> {
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

    fn has_granted(&self, kind: RequestKind) -> bool {
        let granted = self.granted.read().unwrap_or_else(PoisonError::into_inner);
        Right::of(kind).is_some_and(|right| granted.contains(&right))
    }

    fn grant(&self, kind: RequestKind) {
        let Some(right) = Right::of(kind).filter(|_| !self.has_granted(kind)) else {
            return;
        };
        let mut granted = self.granted.write().unwrap_or_else(PoisonError::into_inner);
        granted.insert(right);
    }

    /// The shortest time in which an attempt is worth sending. A write that must not be repeated
    /// would otherwise end with an unknown outcome for lack of time.
    fn least_time(&self, call: &Call<'_>) -> Duration {
        const LEAST: Duration = Duration::from_secs(1);
        match call.request.repeat {
            Repeat::IfNotExecuted => LEAST.min(self.parts.retry.deadline / 30),
            Repeat::Always => Duration::ZERO,
        }
    }
}

fn no_connection() -> TransportError {
    TransportError {
        delivery: Delivery::NotSent,
        message: "all connections of this client are in use; raise `max_connections`".to_owned(),
        source: None,
    }
}

fn outcome_of(answer: &Result<Response, TransportError>) -> Outcome {
    match answer {
        Ok(response) => Outcome::Answered {
            status: response.status,
            retry_after: response.retry_after(),
        },
        Err(error) => Outcome::NoAnswer(error.delivery),
    }
}
