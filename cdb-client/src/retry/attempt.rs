//! One attempt: a connection, an authorization, headers, the request, and what its answer updates.

use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, DATE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};

use crate::credential::{Authorization, SigningContext};
use crate::error::{CallDetails, Error, ErrorKind, RequestKind, Result};
use crate::protocol::{Response, header};
use crate::retry::Pipeline;
use crate::retry::call::Call;
use crate::throughput::Attempt;
use crate::transport::{Delivery, HttpRequest, HttpResponse, TransportError};

impl Pipeline {
    /// Waits for a connection, as long as an attempt is then worth sending.
    pub(super) async fn connection(&self, call: &Call<'_>) -> Result<SemaphorePermit<'_>> {
        let limit = call.remaining().saturating_sub(self.least_time(call));
        match timeout(limit, self.connections.acquire()).await {
            Ok(Ok(connection)) => Ok(connection),
            _ => Err(call.refused(Err(no_connection()))),
        }
    }

    /// Makes one attempt. The outer error means that the request was not sent.
    pub(super) async fn attempt(
        &self,
        call: &mut Call<'_>,
    ) -> Result<Result<Response, TransportError>> {
        let date = self.clock.http_date();
        let resource = &call.request.resource;
        let context = SigningContext {
            verb: &call.request.method,
            resource_type: resource.kind,
            resource_link: &resource.link,
            date: &date,
        };
        let authorization = self.authorize(call, &context).await?;
        let outgoing = HttpRequest {
            method: call.request.method.clone(),
            url: format!("{}{}", call.endpoint, resource.path),
            headers: self.headers(call, &date, &authorization)?,
            body: call.request.body.clone(),
        };
        let limit = self.parts.retry.attempt_timeout.min(call.remaining());
        let sent = Instant::now();
        let answer = match timeout(limit, self.parts.transport.send(outgoing)).await {
            Ok(answer) => answer,
            Err(_) => Err(TransportError {
                delivery: Delivery::Unknown,
                message: format!("no answer within {} ms", limit.as_millis()),
                source: None,
            }),
        };
        call.authorization = Some(authorization);
        Ok(self.received(call, sent, answer))
    }

    /// Asks the credential for an authorization, within the deadline of the call.
    async fn authorize(
        &self,
        call: &Call<'_>,
        context: &SigningContext<'_>,
    ) -> Result<Authorization> {
        let limit = call.remaining();
        let failed = match timeout(limit, self.parts.credential.authorize(context)).await {
            Ok(Ok(authorization)) => return Ok(authorization),
            Ok(Err(error)) => error,
            Err(_) => Error::new(
                ErrorKind::Unavailable,
                format!("no authorization within {} ms", limit.as_millis()),
            ),
        };
        // An earlier attempt may have taken effect.
        match call.attempts.saturating_sub(1) {
            0 => Err(failed),
            attempts => Err(failed.with_call(CallDetails {
                attempts,
                ..call.details(None)
            })),
        }
    }

    fn headers(
        &self,
        call: &Call<'_>,
        date: &str,
        authorization: &Authorization,
    ) -> Result<HeaderMap> {
        let broken =
            |_| Error::configuration("a header of this request contains invalid characters");
        let mut headers = call.request.headers.clone();
        if call.observers.is_background {
            self.parts.background.label(&mut headers);
        }
        headers.insert(AUTHORIZATION, authorization.header());
        headers.insert(header::DATE, HeaderValue::from_str(date).map_err(broken)?);
        headers.insert(
            header::VERSION,
            HeaderValue::from_static(header::API_VERSION),
        );
        headers.insert(
            header::SDK_CAPABILITIES,
            HeaderValue::from_static(header::CAPABILITIES),
        );
        headers.extend(self.region_header(call));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(USER_AGENT, self.parts.user_agent.clone());
        let activity_id = HeaderValue::from_str(&call.activity_id).map_err(broken)?;
        headers.insert(header::ACTIVITY_ID, activity_id);
        let session = call
            .observers
            .sessions
            .filter(|_| !call.request.reads_latest())
            .and_then(|tokens| tokens.header(&call.request.session));
        if let Some(session) = session {
            let session = HeaderValue::from_str(&session).map_err(broken)?;
            headers.insert(header::SESSION_TOKEN, session);
        }
        Ok(headers)
    }

    /// Updates clock, session tokens and usage from an answer.
    fn received(
        &self,
        call: &mut Call<'_>,
        sent: Instant,
        answer: Result<HttpResponse, TransportError>,
    ) -> Result<Response, TransportError> {
        let received = Instant::now();
        let answer = answer
            .map(Response::new)
            .map(|response| match call.request.kind {
                RequestKind::Batch => response.with_failed_operation_of_batch(),
                _ => response,
            });
        let mut attempt = Attempt {
            kind: call.request.kind,
            status: None,
            charge: 0.0,
            bytes_sent: call.request.body.len(),
            bytes_received: 0,
        };
        if let Ok(response) = &answer {
            if let Some(date) = response.header(&DATE) {
                self.clock.observe(sent, received, date);
            }
            let token = response.header(&header::SESSION_TOKEN);
            if let (Some(sessions), Some(token)) = (call.observers.sessions, token)
                && response.status.carries_session()
            {
                sessions.update(token);
            }
            if let Some(named) = response.header(&header::ACTIVITY_ID) {
                named.clone_into(&mut call.activity_id);
            }
            if let Some(governor) = call.observers.governor {
                governor.spent(response.charge);
                if response.status.code == 429 {
                    governor.throttled();
                }
            }
            call.charge += response.charge;
            attempt.status = Some(response.status);
            attempt.charge = response.charge;
            attempt.bytes_received = response.body.len();
        }
        self.meter.count(&attempt);
        answer
    }
}

fn no_connection() -> TransportError {
    TransportError {
        delivery: Delivery::NotSent,
        message: "all connections of this client are in use; raise `max_connections`".to_owned(),
        source: None,
    }
}
