//! Moves requests to another region: the new write region after a failover, the next preferred
//! region after a failed read.

use std::time::Duration;

use tokio::time::timeout;

use crate::account::Account;
use crate::request::Request;
use crate::retry::Outcome;
use crate::retry::pipeline::{Call, Pipeline};
use crate::route::Route;
use crate::status::Status;
use crate::transport::Delivery;

/// The shortest time between two requests for the account document, after a refused write.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// The same, after a region could not be reached: a failover takes minutes.
const OUTAGE_REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// The same, while no account document could be read: perhaps the identity may not read it.
const MISSING_REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// How long one endpoint may take to answer with the account document.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(5);

impl Pipeline {
    /// Chooses the endpoint of the next attempt.
    pub(super) async fn choose_endpoint(&self, call: &mut Call<'_>) {
        let route = call.request.route();
        if route != Route::Account && self.regions.is_needed() {
            self.refresh_regions(call, MISSING_REFRESH_INTERVAL, false)
                .await;
        }
        if self.regions.endpoint(route, &call.skipped).is_none() {
            // Every endpoint failed once, so all get another chance.
            call.skipped.clear();
        }
        let endpoint = self.regions.endpoint(route, &call.skipped);
        call.endpoint = endpoint.expect("the configured endpoint is a candidate");
    }

    /// Whether another endpoint can serve the call at once, after this one did not.
    pub(super) async fn has_fallback(&self, call: &mut Call<'_>, outcome: Outcome) -> bool {
        let is_down = match outcome {
            Outcome::NoAnswer(_) => true,
            Outcome::Answered { status, .. } => {
                status.code == 503 || status == Status::SESSION_NOT_AVAILABLE
            }
        };
        if !is_down || !self.regions.has_several() {
            return false;
        }
        if outcome == Outcome::NoAnswer(Delivery::NotSent) {
            self.regions.mark_unreachable(&call.endpoint);
        }
        call.skipped.push(call.endpoint.clone());
        let route = call.request.route();
        if self.regions.endpoint(route, &call.skipped).is_some() {
            return true;
        }
        self.refresh_regions(call, OUTAGE_REFRESH_INTERVAL, true)
            .await;
        false
    }

    /// Reads the account document after a region refused writes or the account. Returns whether
    /// the next attempt goes to another endpoint.
    pub(super) async fn reroute(&self, call: &mut Call<'_>, outcome: Outcome) -> bool {
        let refused = call.endpoint.clone();
        if matches!(outcome, Outcome::Answered { status, .. } if status == Status::ACCOUNT_NOT_FOUND)
        {
            self.regions.mark_unreachable(&refused);
        }
        self.refresh_regions(call, REFRESH_INTERVAL, true).await;
        call.skipped.clear();
        let next = self.regions.endpoint(call.request.route(), &[]);
        next.is_some_and(|next| next != refused)
    }

    /// Reads the account document, unless a request for it has ended less than `interval` ago.
    /// Concurrent calls share one request. Without an answer, the known regions stay. `reconnects`
    /// drops the connections before, because a region has moved or is down.
    async fn refresh_regions(&self, call: &Call<'_>, interval: Duration, reconnects: bool) {
        let limit = call.remaining();
        // Boxed, so that this rare request does not enlarge every call.
        let refresh = Box::pin(async {
            let _reading = self.regions.reading.lock().await;
            if !self.regions.requested_within(interval) {
                // Also before the request, which may be cancelled.
                self.regions.note_request();
                if reconnects {
                    self.parts.transport.reconnect();
                }
                self.read_regions().await;
                self.regions.note_request();
            }
        });
        if timeout(limit, refresh).await.is_err() {
            tracing::warn!("account document is not read within the time of the request");
        }
    }

    /// Reads the account document from the first endpoint that has it.
    async fn read_regions(&self) {
        let request = Request::for_account();
        for endpoint in self.regions.candidates(request.route()) {
            let mut call = self.call(&request, None);
            call.endpoint = endpoint.clone();
            let Ok(Ok((Ok(answer), _))) = timeout(ACCOUNT_TIMEOUT, self.attempt(&mut call)).await
            else {
                tracing::warn!(%endpoint, "account document cannot be requested");
                continue;
            };
            match answer.metadata::<Account>() {
                Ok(account) if answer.status.is_success() => {
                    self.regions.apply(&account);
                    return;
                }
                _ => {
                    tracing::warn!(%endpoint, status = %answer.status, "account document cannot be read");
                }
            }
        }
    }
}
