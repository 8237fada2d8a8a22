//! The state of one call: its time, its attempts, and its result.

use std::sync::Arc;
use std::time::Duration;

use cdb_model::limits::MAX_REQUEST_BYTES;
use tokio::time::Instant;
use tracing::Span;

use crate::credential::Authorization;
use crate::error::{CallDetails, Error, ErrorKind, RequestKind, ResponseStatus, Result};
use crate::partitions::{SessionTokens, Watch};
use crate::protocol::{Accepted, Outcome, Request, Response};
use crate::retry::{Backoff, RetryConfig, Tries, telemetry};
use crate::throughput::Governor;
use crate::transport::{Delivery, TransportError};

/// What the answers to a request update, as far as its container has it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Observers<'a> {
    pub sessions: Option<&'a SessionTokens>,
    /// Knows the regions of the request's physical partition.
    pub watch: Option<&'a Watch<'a>>,
    pub governor: Option<&'a Arc<Governor>>,
    /// Whether the request waits for the governor, and is labelled.
    pub is_background: bool,
}

/// The state of one call.
pub(super) struct Call<'a> {
    pub(super) request: &'a Request,
    pub(super) observers: Observers<'a>,
    pub(super) activity_id: String,
    pub(super) started: Instant,
    /// The time for all attempts.
    pub(super) deadline: Duration,
    /// The most time for all attempts: the request belongs to a call with a deadline.
    pub(super) longest: Duration,
    pub(super) attempts: u32,
    pub(super) charge: f64,
    pub(super) unknown_outcome: bool,
    /// The key or token of the last attempt.
    pub(super) authorization: Option<Authorization>,
    pub(super) tries: Tries,
    pub(super) backoff: Backoff,
    pub(super) slow: Backoff,
    /// The endpoint of the last attempt.
    pub(super) endpoint: Arc<str>,
    /// Endpoints that failed during this call.
    pub(super) skipped: Vec<Arc<str>>,
}

impl Call<'_> {
    /// Returns the time until the deadline.
    pub(super) fn remaining(&self) -> Duration {
        self.deadline.saturating_sub(self.started.elapsed())
    }

    /// Reports the end of the call.
    pub(super) fn ended(&self, span: &Span, result: &Result<Accepted>) {
        telemetry::call_ended(
            span,
            self.request,
            self.attempts,
            self.charge,
            self.started.elapsed(),
            result,
        );
    }

    pub(super) fn accepted(&self, answer: Result<Response, TransportError>) -> Result<Accepted> {
        match answer {
            Ok(response) => Ok(Accepted {
                call: self.details(Some(&response)),
                response,
            }),
            Err(error) => Err(self.unanswered(error)),
        }
    }

    /// Refuses a request whose call has no time left.
    pub(super) fn check_time(&self) -> Result<()> {
        if self.longest.is_zero() {
            let message = "the request was not sent, because the deadline of its call has passed";
            return Err(Error::new(ErrorKind::Unavailable, message.to_owned()));
        }
        Ok(())
    }

    /// Notes that a write may have taken effect, counts answers about a moving partition, and gives
    /// opening more time while it is throttled.
    pub(super) fn note(&mut self, outcome: Outcome, retry: &RetryConfig) {
        self.unknown_outcome |= outcome.is_doubtful() && !self.request.kind.is_read();
        let Outcome::Answered { status, .. } = outcome else {
            return;
        };
        if status.is_moving() {
            self.tries.moving += 1;
        }
        let kind = self.request.kind;
        if status.code == 429 && kind.is_metadata() && kind != RequestKind::ReadPhysicalPartitions {
            self.deadline = self.deadline.max(retry.opening_deadline).min(self.longest);
        }
    }

    pub(super) fn refused(&self, answer: Result<Response, TransportError>) -> Error {
        match answer {
            Ok(response) => {
                let kind = match ErrorKind::of_status(response.status) {
                    // The caller has not chosen the partition, so another map would not help.
                    ErrorKind::PartitionSplit if !self.tries.addressed_to_range => {
                        ErrorKind::Unavailable
                    }
                    kind => kind,
                };
                let mut message = response.message();
                if response.status == ResponseStatus::TOO_LARGE {
                    // The service names no sizes.
                    let bytes = self.request.body.len();
                    message = format!(
                        "{message} (the request has {bytes} bytes; a request, and a document with the properties of the service, have at most {MAX_REQUEST_BYTES})"
                    );
                }
                let error = Error::new(kind, message).with_call(self.details(Some(&response)));
                match response.failed_operation {
                    Some(failed_operation) => error.with_operation(failed_operation.index),
                    None => error,
                }
            }
            Err(error) => self.unanswered(error),
        }
    }

    fn unanswered(&self, error: TransportError) -> Error {
        let kind = match error.delivery {
            Delivery::NotSent | Delivery::Unknown => ErrorKind::Unavailable,
            Delivery::Untrusted => ErrorKind::Untrusted,
            Delivery::TooLong => ErrorKind::Protocol,
        };
        Error::new(kind, error.to_string())
            .with_source(error)
            .with_call(self.details(None))
    }

    pub(super) fn details(&self, response: Option<&Response>) -> CallDetails {
        CallDetails {
            operation: self.request.kind,
            resource: self.request.resource.link.clone(),
            status: response.map(|response| response.status),
            activity_id: self.activity_id.clone(),
            attempts: self.attempts,
            elapsed: self.started.elapsed(),
            retry_after: response.and_then(Response::retry_after),
            charge: self.charge,
            ambiguous: self.unknown_outcome,
        }
    }
}
