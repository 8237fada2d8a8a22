//! Moves requests to another region: the new write region after a failover, the next preferred
//! region after a failed read.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tokio::time::timeout;

use crate::error::ResponseStatus;
use crate::partitions::{RangeEndpoints, Watch};
use crate::protocol::{Outcome, Request, Route, header};
use crate::regions::Account;
use crate::retry::Pipeline;
use crate::retry::call::{Call, Observers};
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
    /// Applies an account document that the caller has read, if it says what requests without a
    /// region need to know.
    pub(crate) fn learn(&self, account: &Account) {
        if account.has_several_write_regions || account.has_partition_failover {
            self.regions.apply(account);
        }
    }

    /// Whether the writes of a physical partition can move to another region.
    pub(crate) fn has_partition_failover(&self) -> bool {
        self.regions.has_partition_failover()
    }

    /// Returns the header that a region other than the first, or other than that with the writes of
    /// the partition, acts on.
    pub(super) fn region_header(&self, call: &Call<'_>) -> Option<(HeaderName, HeaderValue)> {
        if !call.request.kind.is_read() {
            let value = HeaderValue::from_static("true");
            let name = header::ALLOW_TENTATIVE_WRITES;
            return self.regions.has_several_writes().then_some((name, value));
        }
        // Without the header, a former region would answer, which lacks the writes since the move.
        let is_of_hub = call.observers.watch.is_some() && call.request.route() == Route::Write;
        let value = HeaderValue::from_static("True");
        (is_of_hub && self.has_partition_failover()).then_some((header::HUB_REGION_ONLY, value))
    }

    /// Chooses the endpoint of the next attempt.
    pub(super) async fn choose_endpoint(&self, call: &mut Call<'_>) {
        let route = call.request.route();
        if route != Route::Account && self.regions.is_needed() {
            self.refresh_regions(call, MISSING_REFRESH_INTERVAL, false)
                .await;
        }
        if self.next_endpoint(call).is_none() {
            // Every endpoint failed once, so all get another chance.
            call.skipped.clear();
        }
        let endpoint = self.next_endpoint(call);
        call.endpoint = endpoint.expect("the configured endpoint is a candidate");
        if let Some(watch) = call.observers.watch {
            watch.sent_to(&call.endpoint);
        }
    }

    /// Returns the first endpoint that did not fail during the call. `None` when all did.
    fn next_endpoint(&self, call: &Call<'_>) -> Option<Arc<str>> {
        let range = call
            .observers
            .watch
            .map(Watch::endpoints)
            .unwrap_or_default();
        let route = call.request.route();
        self.regions.endpoint(route, &range, &call.skipped)
    }

    /// Notes after an answer which region has the writes of the partition. Those of other regions
    /// refuse the request before they execute it.
    pub(super) fn note_writes(&self, call: &Call<'_>, outcome: Outcome) {
        let Outcome::Answered { status, .. } = outcome else {
            return;
        };
        let was_executed = status.is_success()
            || matches!(status.code, 304 | 409 | 412)
            || status == ResponseStatus::new(404, 0);
        if let Some(watch) = call.observers.watch
            && was_executed
            && self.regions.has_partition_failover()
            && call.request.route() == Route::Write
        {
            let moved = Some(&call.endpoint).filter(|endpoint| !self.regions.is_hub(endpoint));
            watch.writes_are_at(moved);
        }
    }

    /// Whether another endpoint can serve the call at once, after this one did not.
    pub(super) async fn has_fallback(&self, call: &mut Call<'_>, outcome: Outcome) -> bool {
        let is_down = match outcome {
            Outcome::NoAnswer(_) => true,
            Outcome::Answered { status, .. } => {
                status.code == 503 || status == ResponseStatus::SESSION_NOT_AVAILABLE
            }
        };
        if !is_down || !self.regions.has_several() {
            return false;
        }
        if outcome == Outcome::NoAnswer(Delivery::NotSent) {
            self.regions.mark_unreachable(&call.endpoint);
        }
        call.skipped.push(call.endpoint.clone());
        if self.next_endpoint(call).is_some() {
            return true;
        }
        let reconnects = !self.regions.has_partition_failover();
        self.refresh_regions(call, OUTAGE_REFRESH_INTERVAL, reconnects)
            .await;
        false
    }

    /// Reads the account document after a region refused writes or the account. Returns whether
    /// the next attempt goes to another endpoint.
    pub(super) async fn reroute(&self, call: &mut Call<'_>, outcome: Outcome) -> bool {
        let refused = call.endpoint.clone();
        if matches!(outcome, Outcome::Answered { status, .. } if status == ResponseStatus::ACCOUNT_NOT_FOUND)
        {
            self.regions.mark_unreachable(&refused);
        } else if self.regions.has_partition_failover() {
            // Perhaps only this partition has moved, so the connections of others stay.
            call.skipped.push(refused);
            let has_next = self.next_endpoint(call).is_some();
            if !has_next {
                self.refresh_regions(call, REFRESH_INTERVAL, false).await;
            }
            return has_next;
        }
        self.refresh_regions(call, REFRESH_INTERVAL, true).await;
        call.skipped.clear();
        self.next_endpoint(call).is_some_and(|next| next != refused)
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
        for endpoint in (self.regions).candidates(request.route(), &RangeEndpoints::default()) {
            let mut call = self.call(&request, Observers::default());
            call.endpoint = endpoint.clone();
            let Ok(Ok(Ok(answer))) = timeout(ACCOUNT_TIMEOUT, self.attempt(&mut call)).await else {
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
