//! The settings of an emulator, and its start.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::watch;

use crate::admission::{Admission, Limits};
use crate::clock::Clock;
use crate::emulator::Emulator;
use crate::emulator_error::EmulatorError;
use crate::entra::{DataRole, Identities};
use crate::fault::{Fault, FaultPlan, Faults, Latency, Timer};
use crate::http_server;
use crate::in_process;
use crate::index_build::IndexBuild;
use crate::replicas::ReplicaLag;
use crate::server_state::ServerState;
use crate::service::{Service, Settings};
use crate::store::Store;
use crate::tls::Security;

/// Maximum number of physical partitions of a new container.
const MOST_PARTITIONS: u32 = 1000;

/// Starts an emulator with settings.
///
/// ```
/// use std::time::Duration;
/// use cdb_emulator::{Effect, Emulator, Fault};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = Emulator::builder()
///     .physical_partitions(4)
///     .latency(Duration::from_millis(3))
///     .fault(Fault::with_probability(Effect::DropAnswer, 0.01))
///     .seed(42) // the same faults in every run
///     .start()
///     .await?;
/// println!("{}", emulator.endpoint());
/// emulator.stop().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct EmulatorBuilder {
    directory: Option<PathBuf>,
    clock: Option<Clock>,
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    key: String,
    identities: Identities,
    physical_partitions: u32,
    throughput: Option<u32>,
    version_minutes: Option<u32>,
    faults: FaultPlan,
    index_build: IndexBuild,
    replica_lag: Option<ReplicaLag>,
    ignores_latest_committed: bool,
    pub(crate) regions: Vec<String>,
    multiple_write_locations: bool,
    pub(crate) limits: Limits,
    #[cfg(feature = "tls")]
    tls: bool,
}

/// What an emulator consists of, besides the settings of the builder.
struct Parts {
    key: Vec<u8>,
    /// The address of the account, then those of its regions.
    addresses: Vec<String>,
    security: Security,
    store: Store,
    clock: Clock,
    timer: Timer,
}

impl EmulatorBuilder {
    fn new() -> Self {
        Self {
            directory: None,
            clock: None,
            host: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            key: crate::WELL_KNOWN_KEY.to_owned(),
            identities: Identities::default(),
            physical_partitions: 1,
            throughput: None,
            version_minutes: None,
            faults: FaultPlan::default(),
            index_build: IndexBuild::Immediate,
            replica_lag: None,
            ignores_latest_committed: false,
            regions: Vec::new(),
            multiple_write_locations: false,
            limits: Limits::default(),
            #[cfg(feature = "tls")]
            tls: false,
        }
    }

    /// Stores the data in this directory instead of in memory. Creates the directory if it is
    /// missing.
    #[must_use]
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Lets the service follow this clock instead of the machine's: dates of signatures, `_ts`,
    /// expiry, throughput, durations of faults, failovers, lagging replicas and index
    /// transformations. Delays of responses still take real time.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Some(Clock::Simulated(Arc::new(now)));
        self
    }

    /// Listens on this address instead of 127.0.0.1, for example 0.0.0.0 in a container. Everyone
    /// who reaches the address and knows the key, which is public by default, reads and writes all
    /// data. The pages `/_explorer/` and `/_admin/` still answer connections of this machine only.
    ///
    /// Clients are told the name by which they reached the emulator, unless there are regions.
    #[must_use]
    pub fn host(mut self, address: impl Into<IpAddr>) -> Self {
        self.host = address.into();
        self
    }

    /// Listens on this port instead of any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Accepts this account key (base64) instead of the well-known key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Also accepts Microsoft Entra ID tokens of this identity, with the rights of the role. Call
    /// it once per identity. The emulator checks form, times, issuer and audience of a token, but
    /// not its signature. [`Emulator::entra_token`] issues a token.
    #[must_use]
    pub fn identity(mut self, object_id: impl Into<String>, role: DataRole) -> Self {
        self.identities.add(object_id.into(), role);
        self
    }

    /// Creates containers with this many physical partitions instead of one; at most 1000.
    #[must_use]
    pub fn physical_partitions(mut self, count: u32) -> Self {
        self.physical_partitions = count;
        self
    }

    /// Keeps all versions and deletes of new containers for this time in minutes, for their change
    /// feed. Without it, only those with a `changeFeedPolicy` do.
    #[must_use]
    pub fn keep_versions(mut self, minutes: u32) -> Self {
        self.version_minutes = Some(minutes);
        self
    }

    /// Enforces the throughput (request units per second) that a container or its database was
    /// created with, and this throughput for other containers. Without it, only replaced offers are
    /// enforced.
    #[must_use]
    pub fn throughput(mut self, request_units_per_second: u32) -> Self {
        self.throughput = Some(request_units_per_second);
        self
    }

    /// Delays every response, like the round trip to a real account. Takes a
    /// [`Duration`](std::time::Duration) or a distribution. For a latency of some kinds of
    /// operation only, see [`Effect::Delay`](crate::Effect).
    #[must_use]
    pub fn latency(mut self, latency: impl Into<Latency>) -> Self {
        self.faults.latency = Some(latency.into());
        self
    }

    /// Starts with this fault. Call it once per fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.faults.push(fault);
        self
    }

    /// Starts with these faults instead of the faults that were set before.
    #[must_use]
    pub fn faults(mut self, plan: FaultPlan) -> Self {
        self.faults = plan;
        self
    }

    /// Seeds the random numbers of faults and latencies; the default is 0. The same seed and the
    /// same requests give the same faults.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.faults.seed = Some(seed);
        self
    }

    /// Lets index transformations take a while, as on a service with much data.
    #[must_use]
    pub fn index_build(mut self, build: IndexBuild) -> Self {
        self.index_build = build;
        self
    }

    /// Lets a replica of every partition lag: reads without a session token, or with an older one,
    /// may see an older state.
    #[must_use]
    pub fn replica_lag(mut self, lag: ReplicaLag) -> Self {
        self.replica_lag = Some(lag);
        self
    }

    /// Ignores the header `x-ms-cosmos-read-consistency-strategy`, as older gateways do: a read of the
    /// latest commit may then be answered by a lagging replica, at the charge of a usual read.
    #[must_use]
    pub fn ignore_latest_committed(mut self) -> Self {
        self.ignores_latest_committed = true;
        self
    }

    /// Gives the account these regions; the first one is the write region. Each region has an
    /// endpoint of its own, [`Emulator::region_endpoint`], beside the global one. With a fixed
    /// [`port`](Self::port) the regions use the following ports.
    #[must_use]
    pub fn regions<Name: Into<String>>(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.regions = names.into_iter().map(Into::into).collect();
        self
    }

    /// Lets all regions accept writes (`enableMultipleWriteLocations` of the account document).
    #[must_use]
    pub fn multiple_write_locations(mut self) -> Self {
        self.multiple_write_locations = true;
        self
    }

    /// Limits concurrent connections to this number instead of 10,000. Further connections get 503
    /// and are closed.
    #[must_use]
    pub fn max_connections(mut self, count: usize) -> Self {
        self.limits.connections = count;
        self
    }

    /// Uses HTTPS, with a certificate for `localhost` and the loopback addresses that is generated
    /// at the start. Clients have to trust [`Emulator::certificate_pem`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// Fails when the port is in use, a setting is invalid, or the directory cannot be used.
    pub async fn start(self) -> Result<Emulator, EmulatorError> {
        let key = self.check()?;
        let security = self.security()?;
        // Before the data is opened, so that a start on a port in use changes no data.
        let (endpoints, mut addresses) = self.listen_all()?;
        for address in &mut addresses {
            *address = format!("{}://{address}/", security.scheme());
        }
        let directory = self.directory.clone();
        // SQLite recovers its log after a kill, which can take a moment.
        let opening = tokio::task::spawn_blocking(move || Store::open(directory.as_deref()));
        let parts = Parts {
            key,
            addresses,
            security,
            store: opening.await.map_err(EmulatorError::storage)??,
            clock: self.clock.clone().unwrap_or_else(Clock::machine),
            timer: Timer::start().map_err(EmulatorError::Thread)?,
        };
        let mut emulator = self.assemble(parts)?;
        let stop = emulator.stopping.subscribe();
        let serving = http_server::serve_all(endpoints, emulator.state.clone(), stop);
        emulator.server = Some(tokio::spawn(serving));
        Ok(emulator)
    }

    /// Starts without sockets and threads: [`Emulator::handle`] does all work in the task of its
    /// caller. Delays, and the service's [`clock`](Self::clock) unless it is set, follow Tokio's
    /// clock, also a paused one. For simulations and for tests of many
    /// small emulators. The data is in memory.
    ///
    /// # Errors
    /// Fails when a setting is invalid, or needs a socket or a directory.
    pub fn start_in_process(self) -> Result<Emulator, EmulatorError> {
        let key = self.check()?;
        self.check_in_process()?;
        let regions = (0..self.regions.len()).map(in_process::region_endpoint);
        let parts = Parts {
            key,
            addresses: std::iter::once(in_process::ENDPOINT.to_owned())
                .chain(regions)
                .collect(),
            security: Security::Plain,
            store: Store::in_place()?,
            clock: self.clock.clone().unwrap_or_else(Clock::tokio),
            timer: Timer::Tokio,
        };
        self.assemble(parts)
    }

    /// Assembles an emulator that does not listen yet.
    fn assemble(self, parts: Parts) -> Result<Emulator, EmulatorError> {
        let mut addresses = parts.addresses.into_iter();
        let endpoint = addresses.next().unwrap_or_default();
        let settings = Settings {
            key: parts.key,
            identities: self.identities,
            physical_partitions: self.physical_partitions,
            throughput: self.throughput,
            version_minutes: self.version_minutes,
            endpoint: endpoint.clone(),
            regions: self.regions.into_iter().zip(addresses).collect(),
        };
        let seed = self.faults.seed.unwrap_or_default();
        let state = Arc::new(ServerState {
            faults: Faults::new(self.faults, parts.clock.clone()),
            service: Arc::new(Service::new(parts.store, parts.clock, settings)),
            timer: parts.timer,
            security: parts.security,
            admission: Admission::new(self.limits),
        });
        state.service.index_builds.set_pace(self.index_build);
        let replicas = &state.service.replicas;
        replicas.seed(seed);
        replicas.ignore_strategy(self.ignores_latest_committed);
        if self.replica_lag.is_some() {
            let set = state.service.set_replica_lag(self.replica_lag);
            set.map_err(EmulatorError::storage)?;
        }
        let regions = &state.service.regions;
        regions.set_multiple_write_locations(self.multiple_write_locations);
        Ok(Emulator {
            endpoint,
            key: self.key,
            directory: self.directory,
            state,
            stopping: watch::Sender::new(false),
            stop_by: None,
            server: None,
        })
    }

    /// Refuses settings that need a socket or a directory.
    fn check_in_process(&self) -> Result<(), EmulatorError> {
        let refuse = |setting, value: String, reason: &str| EmulatorError::Setting {
            setting,
            value,
            reason: reason.to_owned(),
        };
        if let Some(directory) = &self.directory {
            let reason = "an emulator in process keeps its data in memory";
            return Err(refuse("data_dir", directory.display().to_string(), reason));
        }
        if self.port != 0 {
            let reason = "an emulator in process has no socket";
            return Err(refuse("port", self.port.to_string(), reason));
        }
        #[cfg(feature = "tls")]
        if self.tls {
            let reason = "an emulator in process has no connections";
            return Err(refuse("tls", true.to_string(), reason));
        }
        Ok(())
    }

    /// Checks all settings and returns the decoded key.
    fn check(&self) -> Result<Vec<u8>, EmulatorError> {
        let refuse = |setting, value: &dyn ToString, reason: &str| EmulatorError::Setting {
            setting,
            value: value.to_string(),
            reason: reason.to_owned(),
        };
        if !(1..=MOST_PARTITIONS).contains(&self.physical_partitions) {
            let reason = "a container has 1 to 1000 physical partitions";
            return Err(refuse(
                "physical_partitions",
                &self.physical_partitions,
                reason,
            ));
        }
        if self.limits.connections == 0 {
            return Err(refuse("max_connections", &0, "allow at least 1 connection"));
        }
        let mut names: Vec<&str> = self.regions.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() < self.regions.len() || names.contains(&"") {
            let reason = "each region needs a name of its own";
            return Err(refuse("regions", &self.regions.join(", "), reason));
        }
        if self.throughput == Some(0) {
            let reason = "leave it out for no limit";
            return Err(refuse("throughput", &0, reason));
        }
        if let Some(lag) = &self.replica_lag
            && let Err(reason) = lag.check()
        {
            return Err(refuse("replica_lag", &format!("{lag:?}"), &reason));
        }
        self.faults
            .check()
            .map_err(|reason| EmulatorError::Faults { reason })?;
        let key = STANDARD.decode(&self.key).ok();
        key.filter(|key| !key.is_empty()).ok_or(EmulatorError::Key)
    }

    #[cfg_attr(
        not(feature = "tls"),
        expect(
            clippy::unused_self,
            clippy::unnecessary_wraps,
            reason = "with TLS it is used and can fail"
        )
    )]
    fn security(&self) -> Result<Security, EmulatorError> {
        #[cfg(feature = "tls")]
        if self.tls {
            let tls = crate::tls::Tls::generate().map_err(EmulatorError::Certificate)?;
            return Ok(Security::Tls(tls));
        }
        Ok(Security::Plain)
    }
}

impl Emulator {
    /// Starts an emulator in memory, on a free port, with the well-known key.
    ///
    /// # Errors
    /// Fails when the emulator cannot listen on a port.
    pub async fn start() -> Result<Self, EmulatorError> {
        Self::builder().start().await
    }

    /// Returns a builder for an emulator with other settings.
    pub fn builder() -> EmulatorBuilder {
        EmulatorBuilder::new()
    }
}
