//! A network in simulated time that fails for one process only.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use cdb_client::transport::http::Method;
use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_emulator::OperationKind;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use tokio::time::Instant;

use crate::silence::Silence;

/// Recognises a request.
pub(crate) type Kind = fn(&HttpRequest) -> bool;

pub(crate) const BATCH: Kind =
    |request| request.headers.contains_key("x-ms-cosmos-is-batch-request");
/// A document is created, outside of a batch.
pub(crate) const CREATE: Kind = |request| {
    let headers = &request.headers;
    request.method == Method::POST
        && !headers.contains_key("x-ms-cosmos-is-batch-request")
        && !headers.contains_key("x-ms-documentdb-isquery")
};
/// Any request.
pub(crate) const ANY: Kind = |_| true;
pub(crate) const READ: Kind = |request| request.method == Method::GET;
/// A page of a query.
pub(crate) const QUERY: Kind = crate::silence::is_query;
/// The kinds of writes.
pub(crate) const WRITES: &[OperationKind] = &[
    OperationKind::Create,
    OperationKind::Replace,
    OperationKind::Upsert,
    OperationKind::Patch,
    OperationKind::Delete,
    OperationKind::Batch,
    OperationKind::Bulk,
];

/// A write, alone or in a batch.
pub(crate) const WRITE: Kind = |request| !READ(request) && !QUERY(request);
pub(crate) const PATCH: Kind = |request| request.method == Method::PATCH;

#[derive(Debug, Default)]
enum State {
    #[default]
    Sound,
    /// After this many requests of this kind, the next one starts a stall of this duration.
    StallsAfter(usize, Kind, Duration),
    /// All requests are delayed.
    StalledUntil(Instant),
    /// After the answers to this many requests of this kind, the process stands still for this time
    /// when it gets the next one.
    FreezesAfter(usize, Kind, Duration),
    /// The process stands still until then, or has stood still.
    FrozenUntil(Instant),
    /// All requests of this kind are delayed.
    Slow(Kind, Duration),
    /// Requests of this kind are not sent and get no answer.
    Swallows(Kind),
    /// Requests that need this physical partition are not sent and get no answer.
    Silent(Silence),
    /// Requests that need this physical partition are delayed.
    SlowPartition(Silence, Duration),
}

/// What happens to a single request, which arrives at once.
#[derive(Clone, Copy, Debug)]
enum Once {
    /// Its answer arrives only after this time.
    AnsweredLate(Duration),
    /// It arrives a second time after this time.
    Repeated(Duration),
}

/// Controls the network of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network(Arc<Mutex<State>>, Arc<Mutex<Option<(Kind, Once)>>>);

/// A store in simulated time, and a provider on a network that the test controls. `None` on an account.
pub(crate) async fn on_network() -> Option<(Backend, Network, CosmosDBProvider)> {
    let backend = Backend::start_simulated().await;
    let network = Network::default();
    let Some(provider) = network.provider(&backend).await else {
        backend.stop().await;
        return None;
    };
    Some((backend, network, provider))
}

impl Network {
    /// Opens a provider on this network. `None` on an account, whose network the test cannot
    /// control.
    pub(crate) async fn provider(&self, backend: &Backend) -> Option<CosmosDBProvider> {
        self.provider_with(backend, |_| {}).await
    }

    /// Like [`provider`](Self::provider), with changed settings for this provider only.
    pub(crate) async fn provider_with(
        &self,
        backend: &Backend,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> Option<CosmosDBProvider> {
        let through = |time| Faulty {
            network: self.clone(),
            time,
        };
        backend.provider_through(change, through).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> MutexGuard<'_, Option<(Kind, Once)>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stalls as soon as a request of this kind is sent, like a stopped process: this and all later
    /// requests arrive late.
    pub(crate) fn stall_at(&self, kind: Kind, time: Duration) {
        self.stall_after(0, kind, time);
    }

    /// The same after some requests of this kind.
    pub(crate) fn stall_after(&self, requests: usize, kind: Kind, time: Duration) {
        *self.state() = State::StallsAfter(requests, kind, time);
    }

    /// Whether it has stalled, or the process has stood still.
    pub(crate) fn has_stalled(&self) -> bool {
        matches!(
            *self.state(),
            State::StalledUntil(_) | State::FrozenUntil(_)
        )
    }

    /// Lets the [`process`](Self::process) stand still after the answers to some requests of this
    /// kind. What the service has done, it learns afterwards.
    pub(crate) fn freeze_after(&self, requests: usize, kind: Kind, time: Duration) {
        *self.state() = State::FreezesAfter(requests, kind, time);
    }

    /// Runs work of a process that stands still meanwhile.
    pub(crate) async fn process<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let done = poll_fn(|context| match self.frozen_until() {
                Some(until) => Poll::Ready(Err(until)),
                None => work.as_mut().poll(context).map(Ok),
            });
            match done.await {
                Ok(done) => return done,
                Err(until) => tokio::time::sleep_until(until).await,
            }
        }
    }

    fn frozen_until(&self) -> Option<Instant> {
        match *self.state() {
            State::FrozenUntil(until) if until > Instant::now() => Some(until),
            _ => None,
        }
    }

    /// Notes an answer. Returns whether the process stands still now.
    fn is_answered(&self, request: &HttpRequest) -> bool {
        let mut state = self.state();
        match *state {
            State::FreezesAfter(0, kind, time) if kind(request) => {
                *state = State::FrozenUntil(Instant::now() + time);
                true
            }
            State::FreezesAfter(requests, kind, time) if kind(request) => {
                *state = State::FreezesAfter(requests - 1, kind, time);
                false
            }
            _ => false,
        }
    }

    /// Delays all requests of this kind.
    pub(crate) fn slow_down(&self, kind: Kind, time: Duration) {
        *self.state() = State::Slow(kind, time);
    }

    /// Swallows requests of this kind.
    pub(crate) fn swallow(&self, kind: Kind) {
        *self.state() = State::Swallows(kind);
    }

    /// Silences a physical partition. `instances` are those of the test, each with its physical
    /// partition.
    pub(crate) fn silence(&self, range: &str, instances: &[(String, String)]) {
        let in_range = instances.iter().filter(|(_, other)| other == range);
        let names = in_range.map(|(instance, _)| instance);
        *self.state() = State::Silent(Silence::of(range, names));
    }

    /// Delays requests of this kind to a physical partition. `instances` are those of the test, each
    /// with its physical partition.
    pub(crate) fn slow_partition(
        &self,
        range: &str,
        instances: &[(String, String)],
        kind: Kind,
        delay: Duration,
    ) {
        let in_range = instances.iter().filter(|(_, other)| other == range);
        let silence = Silence::of(range, in_range.map(|(instance, _)| instance));
        *self.state() = State::SlowPartition(silence.only(kind), delay);
    }

    /// Delays the answer to the next request of this kind. The request itself arrives at once.
    pub(crate) fn answer_late(&self, kind: Kind, time: Duration) {
        *self.next() = Some((kind, Once::AnsweredLate(time)));
    }

    /// The next request of this kind arrives a second time after this time.
    pub(crate) fn repeat(&self, kind: Kind, time: Duration) {
        *self.next() = Some((kind, Once::Repeated(time)));
    }

    /// Lets all requests through again. Swallowed requests stay without an answer.
    pub(crate) fn repair(&self) {
        *self.state() = State::Sound;
        *self.next() = None;
    }

    /// Waits until the network may send a request.
    async fn let_through(&self, request: &HttpRequest) {
        let until = {
            let mut state = self.state();
            match &*state {
                &State::StallsAfter(0, kind, time) if kind(request) => {
                    let until = Instant::now() + time;
                    *state = State::StalledUntil(until);
                    Some(until)
                }
                &State::StallsAfter(requests, kind, time) if kind(request) => {
                    *state = State::StallsAfter(requests - 1, kind, time);
                    return;
                }
                &State::StalledUntil(until) => Some(until),
                &State::Slow(kind, time) if kind(request) => Some(Instant::now() + time),
                State::Swallows(kind) if kind(request) => None,
                State::Silent(silence) if silence.concerns(request) => None,
                State::SlowPartition(silence, delay) if silence.concerns(request) => {
                    Some(Instant::now() + *delay)
                }
                _ => return,
            }
        };
        match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }
}

#[derive(Debug)]
struct Faulty {
    network: Network,
    time: SimulatedTime,
}

#[async_trait]
impl Transport for Faulty {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let sent = request.clone();
        self.network.let_through(&request).await;
        let once = self.network.next().take_if(|(kind, _)| kind(&request));
        let mut delay = Duration::ZERO;
        match once {
            Some((_, Once::AnsweredLate(time))) => delay = time,
            Some((_, Once::Repeated(time))) => {
                let (service, request) = (self.time.clone(), request.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    service.send(request).await
                });
            }
            None => {}
        }
        let answer = self.time.send(request).await;
        tokio::time::sleep(delay).await;
        if self.network.is_answered(&sent) {
            // The process is polled again when it goes on.
            tokio::task::yield_now().await;
        }
        answer
    }
}
