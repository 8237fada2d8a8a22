//! Sends a request: all stages from its caller to its result, in order.
//!
//! A request to a container takes [`Channel::send_admitted`], and one of the account or a database begins at
//! [`Pipeline::send`]. The stages are in `channel/stages.rs` (before the first attempt), `reroute.rs` (the
//! endpoint), `attempt.rs`, `verdict.rs` (the decision) and `between.rs`; `call.rs` is the state of a call.

use futures::future::BoxFuture;
use tracing::Instrument as _;

use crate::error::Result;
use crate::partitions::{Class, goes_on};
use crate::protocol::{Accepted, Outcome, Request};
use crate::retry::call::{Call, Observers};
use crate::retry::{Channel, Pipeline, Verdict, telemetry, verdict};
use crate::throughput::Admission;

impl Channel {
    /// Sends a request to the container. A background request waits for its admission first.
    pub(crate) async fn send(&self, request: &Request) -> Result<Accepted> {
        let admission = self.admit(request.kind).await;
        self.send_admitted(request, admission).await
    }

    /// Sends an admitted request.
    pub(crate) async fn send_admitted(
        &self,
        request: &Request,
        admission: Option<Admission>,
    ) -> Result<Accepted> {
        self.check_names()?;
        self.list_for_failover(request).await;
        let narrowed = self.narrowed(request).await;
        let request = narrowed.as_deref().unwrap_or(request);
        let result = match self.range_of_request(request) {
            Some(range) if goes_on(Class::of(request.kind)) => self.going_on(range, request).await,
            range => self.watched(range, request).await,
        };
        Self::settle(admission, &result);
        result
    }
}

impl Pipeline {
    /// Sends a request until it has a result. Reads session tokens from the observers, which only a
    /// request to a container has.
    ///
    /// # Errors
    /// When the service refuses the request or does not answer;
    /// [`Error::is_ambiguous`](crate::Error::is_ambiguous) when a write may have taken effect.
    pub(crate) async fn send(
        &self,
        request: &Request,
        observers: Option<Observers<'_>>,
    ) -> Result<Accepted> {
        let mut call = self.call(request, observers.unwrap_or_default());
        let span = telemetry::call_span(request);
        // Boxed, because every future of a caller contains it. Without its type, so that the
        // compiler need not look into it for every task that a caller spawns.
        let attempts: BoxFuture<'_, _> = Box::pin(self.attempts(&mut call));
        let result = attempts.instrument(span.clone()).await;
        call.ended(&span, &result);
        result
    }

    async fn attempts(&self, call: &mut Call<'_>) -> Result<Accepted> {
        call.check_time()?;
        loop {
            call.attempts += 1;
            call.tries.granted = self.rights.include(call.request.kind);
            self.choose_endpoint(call).await;
            let connection = self.connection(call).await?;
            let attempt = self.attempt(call).await;
            drop(connection);
            let answer = match attempt {
                Ok(answer) => answer,
                Err(error) => {
                    self.wait_for_authorization(call, error).await?;
                    continue;
                }
            };
            let outcome = Outcome::of(&answer);
            self.note_writes(call, outcome);
            call.note(outcome, &self.parts.retry);
            let retry = match verdict(call.request.repeat, call.tries, outcome) {
                Verdict::Accept => {
                    self.rights.grant(call.request.kind);
                    return call.accepted(answer);
                }
                Verdict::Refuse | Verdict::RefuseAmbiguous => return Err(call.refused(answer)),
                Verdict::Retry(retry) => retry,
            };
            let delay = self.prepare_retry(call, retry, outcome).await;
            if self.lacks_time(call, delay) {
                call.forget_unsatisfiable_session(outcome);
                return Err(call.refused(answer));
            }
            call.wait(delay, outcome).await;
        }
    }
}
