//! The network between the nodes and the service: latencies, and nodes that are cut off, paused or
//! dead.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cdb_chaos::CONTAINER;
use cdb_client::transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};
use cdb_emulator::Emulator;
use tokio::time::{Instant, sleep};

use crate::random::Random;
use crate::trace::{Entry, Trace};
use crate::virtual_time::{elapsed, note_task};

/// The latency of a request in each direction.
const LATENCY: std::ops::Range<Duration> = Duration::from_micros(500)..Duration::from_millis(4);

/// The time until a connection to an unreachable service fails.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The node number of a member that takes no work. Clients have higher numbers.
pub(crate) const BYSTANDER: u32 = 90;

/// The partition of the members, which no load reads.
pub(crate) const MEMBERS: &str = "cdb:members";

/// The connection of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Nothing arrives. Connections fail, and answers on the way are lost.
    Cut,
    /// The node is paused: its requests arrive only at this time, however old they are then.
    Paused(Instant),
    /// The node was killed.
    Dead,
}

/// The service and the way to it.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) emulator: Emulator,
    /// The time to the service and back, besides the latency.
    distance: Duration,
    trace: Mutex<Trace>,
    random: Mutex<Random>,
    /// The percentage of requests that arrive twice.
    duplicates: Mutex<u64>,
    slow_loads: Mutex<Vec<SlowLoads>>,
    /// The bodies of writes that took place when they arrived the second time.
    late_writes: Mutex<Vec<Bytes>>,
}

/// Whether a request arrives for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    First,
    Second,
}

/// Nodes get the answers to queries of single logical partitions late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowLoads {
    /// The node; all if `None`.
    pub(crate) node: Option<u32>,
    pub(crate) delay: Duration,
    pub(crate) until: Instant,
}

/// The transport of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeTransport {
    network: Arc<Network>,
    node: u32,
    link: Arc<Mutex<Link>>,
}

impl Network {
    pub(crate) fn new(emulator: Emulator, seed: u64, distance: Duration) -> Arc<Self> {
        Arc::new(Self {
            emulator,
            distance,
            trace: Mutex::default(),
            random: Mutex::new(Random::new(seed, "network")),
            duplicates: Mutex::new(0),
            slow_loads: Mutex::default(),
            late_writes: Mutex::default(),
        })
    }

    /// Connects a node.
    pub(crate) fn connect(self: &Arc<Self>, node: u32) -> NodeTransport {
        NodeTransport {
            network: self.clone(),
            node,
            link: Arc::new(Mutex::new(Link::Up)),
        }
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        lock(&self.trace)
    }

    pub(crate) fn set_duplicates(&self, percent: u64) {
        *lock(&self.duplicates) = percent;
    }

    pub(crate) fn slow_loads(&self, slow: SlowLoads) {
        lock(&self.slow_loads).push(slow);
    }

    /// Returns how late a node gets the answer to a request.
    fn lateness(&self, node: u32, request: &HttpRequest) -> Duration {
        let mut slow = lock(&self.slow_loads);
        slow.retain(|slow| slow.until > Instant::now());
        if slow.is_empty() || node >= BYSTANDER || !is_load(request) {
            return Duration::ZERO;
        }
        let concerns = |slow: &&SlowLoads| slow.node.is_none_or(|slow| slow == node);
        let delays = slow.iter().filter(concerns).map(|slow| slow.delay);
        delays.max().unwrap_or_default()
    }

    /// Returns whether a write with such a body took place when it arrived the second time.
    pub(crate) fn wrote_late(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.late_writes(is_such) > 0
    }

    /// Returns how many writes with such bodies took place when they arrived the second time.
    pub(crate) fn late_writes(&self, is_such: impl Fn(&str) -> bool) -> u64 {
        let late = lock(&self.late_writes);
        let such = late
            .iter()
            .filter(|body| is_such(&String::from_utf8_lossy(body)));
        such.count() as u64
    }

    /// Ends all faults of requests.
    pub(crate) fn heal(&self) {
        self.set_duplicates(0);
        lock(&self.slow_loads).clear();
        self.emulator.clear_faults();
    }

    /// Adds an event of the simulation to the trace.
    pub(crate) fn note(&self, what: String) {
        self.trace().add(Entry {
            at: elapsed(),
            node: 0,
            what,
            body: Bytes::new(),
            status: 0,
        });
    }

    fn latency(&self) -> Duration {
        let mut random = lock(&self.random);
        let latency = random.duration(LATENCY);
        if self.distance.is_zero() {
            return latency;
        }
        // With jitter of a quarter.
        latency + random.duration(self.distance * 3 / 8..self.distance * 5 / 8)
    }

    fn arrives_twice(&self) -> bool {
        let percent = *lock(&self.duplicates);
        percent > 0 && lock(&self.random).chance(percent)
    }

    /// Lets a request arrive after `delay`, whether or not its sender still waits.
    async fn arrive(
        self: Arc<Self>,
        node: u32,
        request: HttpRequest,
        delay: Duration,
        arrival: Arrival,
    ) -> Result<HttpResponse, TransportError> {
        sleep(delay).await;
        let what = describe(&request);
        let answer = self.emulator.handle(to_http(&request)).await;
        let status = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
        let is_write = !request.headers.contains_key("x-ms-documentdb-isquery");
        if arrival == Arrival::Second && is_write && matches!(status, 200 | 201) {
            lock(&self.late_writes).push(request.body.clone());
        }
        self.trace().add(Entry {
            at: elapsed(),
            node,
            what,
            body: request.body,
            status,
        });
        from_http(answer)
    }
}

fn to_http(request: &HttpRequest) -> http::Request<Bytes> {
    let mut sent = http::Request::new(request.body.clone());
    *sent.method_mut() = request.method.clone();
    let address = request.url.parse();
    *sent.uri_mut() = address.expect("the client sends valid addresses");
    *sent.headers_mut() = request.headers.clone();
    sent
}

fn from_http<E: Display>(
    answer: Result<http::Response<Bytes>, E>,
) -> Result<HttpResponse, TransportError> {
    let answer = answer.map_err(|error| lost(Delivery::Unknown, &error.to_string()))?;
    let (head, body) = answer.into_parts();
    Ok(HttpResponse {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
    })
}

impl NodeTransport {
    pub(crate) fn set(&self, link: Link) {
        *lock(&self.link) = link;
    }

    fn link(&self) -> Link {
        *lock(&self.link)
    }
}

#[async_trait]
impl Transport for NodeTransport {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        note_task(self.node);
        let network = &self.network;
        let pause = match self.link() {
            Link::Up => Duration::ZERO,
            Link::Paused(until) => until.saturating_duration_since(Instant::now()),
            Link::Cut => {
                sleep(CONNECT_TIMEOUT).await;
                return Err(lost(Delivery::NotSent, "the node is cut off"));
            }
            Link::Dead => std::future::pending().await,
        };
        let delay = pause + network.latency();
        if network.arrives_twice() {
            let later = delay * 100;
            let again = network.clone();
            tokio::spawn(again.arrive(self.node, request.clone(), later, Arrival::Second));
        }
        let lateness = network.lateness(self.node, &request);
        let arriving = network.clone();
        let arriving = arriving.arrive(self.node, request, delay, Arrival::First);
        let arriving = tokio::spawn(arriving);
        let answer = arriving.await.expect("the service does not panic");
        sleep(network.latency() + lateness).await;
        match self.link() {
            Link::Up | Link::Paused(_) => answer,
            Link::Cut => Err(lost(Delivery::Unknown, "the node is cut off")),
            Link::Dead => std::future::pending().await,
        }
    }
}

/// Returns whether a request loads an instance: it queries the logical partition of one.
fn is_load(request: &HttpRequest) -> bool {
    let header = |name| {
        request
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let of_instances = request.url.contains(&format!("/colls/{CONTAINER}/docs"));
    let partition = header("x-ms-documentdb-partitionkey");
    let of_instance = partition.is_some_and(|partition| !partition.contains(MEMBERS));
    of_instances && of_instance && header("x-ms-documentdb-isquery").is_some()
}

/// A client that is not part of the cluster: its requests take no time, and are not in the trace.
/// Faults of the service affect it.
#[derive(Clone, Debug)]
pub(crate) struct Outside(pub(crate) Arc<Network>);

#[async_trait]
impl Transport for Outside {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let answer = self.0.emulator.handle(to_http(&request)).await;
        from_http(answer)
    }
}

fn lost(delivery: Delivery, message: &str) -> TransportError {
    TransportError {
        delivery,
        message: message.to_owned(),
        source: None,
    }
}

/// Returns method, path and the headers that say what a request does.
fn describe(request: &HttpRequest) -> String {
    let path = request.url.split("invalid").last().unwrap_or_default();
    let header = |name| {
        let value = request.headers.get(name)?.to_str().ok()?;
        Some(format!(" {value}"))
    };
    let partition = header("x-ms-documentdb-partitionkey").unwrap_or_default();
    let range = header("x-ms-documentdb-partitionkeyrangeid").unwrap_or_default();
    format!("{} {path}{partition}{range}", request.method)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
