//! A network on which one kind of requests fails for good.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cdb_client::transport::http::{HeaderMap, HeaderValue, Method};
use cdb_client::transport::{
    Delivery, HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use tokio::time::{Instant, sleep};

/// A kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sent {
    Read,
    Query,
    Feed,
    Create,
    Replace,
    Patch,
    Delete,
    Batch,
    Bulk,
    /// The listing of the physical partitions.
    Ranges,
    /// Other requests about the account, databases and containers.
    Metadata,
}

impl Sent {
    fn of(request: &HttpRequest) -> Self {
        let has = |name| request.headers.contains_key(name);
        let is = |name, value: &str| request.headers.get(name).is_some_and(|it| it == value);
        if request.url.ends_with("/pkranges") {
            Self::Ranges
        } else if !request.url.contains("/docs") {
            Self::Metadata
        } else if has("a-im") {
            Self::Feed
        } else if has("x-ms-documentdb-isquery") {
            Self::Query
        } else if is("x-ms-cosmos-batch-atomic", "False") {
            Self::Bulk
        } else if has("x-ms-cosmos-is-batch-request") {
            Self::Batch
        } else {
            match request.method {
                Method::GET => Self::Read,
                Method::PUT => Self::Replace,
                Method::PATCH => Self::Patch,
                Method::DELETE => Self::Delete,
                _ => Self::Create,
            }
        }
    }
}

/// How requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// They get no answer.
    Silent,
    /// No connection.
    Refused,
    /// They are answered by this status and sub-status.
    Status(u16, u32),
}

impl Failure {
    pub(super) const ALL: &[Self] = &[
        Self::Silent,
        Self::Refused,
        Self::Status(408, 0),
        Self::Status(410, 1007),
        Self::Status(429, 3200),
        Self::Status(449, 0),
        Self::Status(500, 0),
        Self::Status(503, 0),
    ];

    /// Those with which many callers are tried.
    pub(super) const SHARED: &[Self] =
        &[Self::Silent, Self::Status(429, 3200), Self::Status(500, 0)];
}

#[derive(Debug, Default)]
struct State {
    fault: Option<(Sent, Failure)>,
    kinds: BTreeSet<Sent>,
    /// When failing requests were sent.
    failed: Vec<Instant>,
}

/// The network of a process.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    time: SimulatedTime,
    state: Arc<Mutex<State>>,
}

impl Failing {
    pub(super) fn new(time: SimulatedTime) -> Self {
        let state = Arc::default();
        Self { time, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub(super) fn fail(&self, sent: Sent, how: Failure) {
        self.state().fault = Some((sent, how));
    }

    pub(super) fn repair(&self) {
        self.state().fault = None;
    }

    pub(super) fn forget(&self) {
        self.state().kinds.clear();
    }

    /// Returns the kinds of the requests that were sent.
    pub(super) fn kinds(&self) -> BTreeSet<Sent> {
        self.state().kinds.clone()
    }

    /// Returns the most failing requests within a second.
    pub(super) fn busiest_second(&self) -> usize {
        let failed = &self.state().failed;
        let within = |(at, begun): (usize, &Instant)| {
            let end = failed.partition_point(|sent| *sent < *begun + Duration::from_secs(1));
            end - at
        };
        failed.iter().enumerate().map(within).max().unwrap_or(0)
    }

    fn failure(&self, request: &HttpRequest) -> Option<Failure> {
        let sent = Sent::of(request);
        let mut state = self.state();
        state.kinds.insert(sent);
        let (_, how) = state.fault.filter(|(failing, _)| *failing == sent)?;
        state.failed.push(Instant::now());
        Some(how)
    }
}

#[async_trait]
impl Transport for Failing {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let (status, sub) = match self.failure(&request) {
            None => return self.time.send(request).await,
            Some(Failure::Silent) => return std::future::pending().await,
            Some(Failure::Status(status, sub)) => (status, sub),
            Some(Failure::Refused) => {
                sleep(Duration::from_millis(1)).await;
                return Err(TransportError {
                    delivery: Delivery::NotSent,
                    message: "connection refused".to_owned(),
                    source: None,
                });
            }
        };
        sleep(Duration::from_millis(1)).await;
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-substatus", HeaderValue::from(sub));
        if status == 429 {
            headers.insert("x-ms-retry-after-ms", HeaderValue::from(200));
        }
        Ok(HttpResponse {
            status,
            headers,
            body: Vec::new().into(),
        })
    }
}
