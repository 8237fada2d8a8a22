//! What all requests of one account share.

use std::sync::Arc;

use http::HeaderValue;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

use crate::clock::ServiceClock;
use crate::credential::Credential;
use crate::protocol::Request;
use crate::regions::Regions;
use crate::retry::call::{Call, Observers};
use crate::retry::rights::Rights;
use crate::retry::{Backoff, Jitter, RetryConfig, Tries, time_left};
use crate::throughput::{BackgroundConfig, Meter};
use crate::transport::Transport;

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
    pub(super) connections: Semaphore,
    pub(super) rights: Rights,
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
            rights: Rights::default(),
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

    /// Creates the state of a call before its first attempt.
    pub(super) fn call<'a>(&self, request: &'a Request, observers: Observers<'a>) -> Call<'a> {
        let longest = time_left();
        Call {
            request,
            observers,
            activity_id: Uuid::new_v4().to_string(),
            started: Instant::now(),
            deadline: self.parts.retry.deadline.min(longest),
            longest,
            attempts: 0,
            charge: 0.0,
            unknown_outcome: false,
            authorization: None,
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
}
