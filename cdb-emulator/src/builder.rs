//! How an emulator is started: its settings, what is wrong with them, and the steps to a listening server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use crate::admission::{Admission, Limits};
use crate::emulator::Emulator;
use crate::entra::{DataRole, Identities};
use crate::fault::{Alarm, Fault, FaultPlan, Faults, Latency};
use crate::http_front::{self, Front};
use crate::service::{Service, Settings};
use crate::store::Store;
use crate::tls::Security;

/// Most physical partitions of a new container.
const MOST_PARTITIONS: u32 = 1000;

/// Why the emulator did not start.
///
/// ```
/// use cdb_emulator::{Emulator, EmulatorError};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let first = Emulator::builder().data_dir(folder.path()).start().await?;
/// let second = Emulator::builder().data_dir(folder.path()).start().await;
/// match second.map(drop) {
///     Err(EmulatorError::InUse { directory }) => assert_eq!(directory, folder.path()),
///     other => panic!("two emulators on one directory: {other:?}"),
/// }
/// # first.stop().await; Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// Another program listens on the port.
    #[error(
        "port {port} is in use; stop the program that listens there, or choose port 0 for any free one"
    )]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// The port cannot be listened on.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The port; 0 stands for any.
        port: u16,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The key is no base64.
    #[error("the emulator's key is no base64, or empty")]
    Key,
    /// A setting has a value that makes no sense.
    #[error("{setting} cannot be {value}: {reason}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What it may be.
        reason: String,
    },
    /// A latency or a fault makes no sense.
    #[error("the faults cannot be injected: {reason}")]
    Faults {
        /// Which one, and what it may be.
        reason: String,
    },
    /// Another process, or another emulator of this one, has the directory.
    #[error(
        "the data directory {} is in use; stop the emulator that runs on it, or choose another directory",
        .directory.display()
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory was written by a newer version. It was not touched.
    #[error(
        "the data directory {} has form {found} and this emulator knows forms up to {known}; start the newer \
         emulator that wrote it, or choose another directory",
        .directory.display()
    )]
    Newer {
        /// The directory.
        directory: PathBuf,
        /// The form of its data.
        found: i64,
        /// The newest form that this version knows.
        known: i64,
    },
    /// A physical partition cannot be split.
    #[error("cannot split physical partition {range_id}: {reason}")]
    Split {
        /// Its id.
        range_id: String,
        /// What is missing.
        reason: String,
    },
    /// The directory cannot hold the data.
    #[error("cannot keep data: {reason}")]
    Storage {
        /// What went wrong, and what to do about it.
        reason: String,
    },
    /// The system gives no thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// No certificate can be made.
    #[cfg(feature = "tls")]
    #[error("cannot make a certificate")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl EmulatorError {
    pub(crate) fn storage(reason: impl std::fmt::Display) -> Self {
        Self::Storage {
            reason: reason.to_string(),
        }
    }
}

impl From<rusqlite::Error> for EmulatorError {
    fn from(error: rusqlite::Error) -> Self {
        Self::storage(error)
    }
}

/// Connections that the system keeps until they are accepted; it may keep fewer. Whoever comes in a crowd and finds no
/// room there tries again after a second.
const WAITING: u32 = 4096;

/// How the emulator is to be started.
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
    port: u16,
    key: String,
    identities: Identities,
    physical_partitions: u32,
    throughput: Option<u32>,
    faults: FaultPlan,
    pub(crate) limits: Limits,
    #[cfg(feature = "tls")]
    tls: bool,
}

impl EmulatorBuilder {
    pub(crate) fn new() -> Self {
        Self {
            directory: None,
            port: 0,
            key: crate::WELL_KNOWN_KEY.to_owned(),
            identities: Identities::default(),
            physical_partitions: 1,
            throughput: None,
            faults: FaultPlan::default(),
            limits: Limits::default(),
            #[cfg(feature = "tls")]
            tls: false,
        }
    }

    /// Keeps the data in this directory instead of in memory. It is made if it is not there.
    #[must_use]
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Listens on this port instead of any free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Accepts this account key (base64) instead of the well-known one.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Also accepts Microsoft Entra ID tokens of this identity, which may do what the role allows; may be called for
    /// several. Form, times and audience of a token are checked, its signature is not. [`Emulator::entra_token`]
    /// makes one.
    #[must_use]
    pub fn identity(mut self, object_id: impl Into<String>, role: DataRole) -> Self {
        self.identities.add(object_id.into(), role);
        self
    }

    /// Gives new containers this many physical partitions instead of one; at most 1000.
    #[must_use]
    pub fn physical_partitions(mut self, count: u32) -> Self {
        self.physical_partitions = count;
        self
    }

    /// Enforces request units per second: those that a container or its database was created with, and this many for a
    /// container without any. Left out, only offers that were replaced are enforced.
    #[must_use]
    pub fn throughput(mut self, request_units_per_second: u32) -> Self {
        self.throughput = Some(request_units_per_second);
        self
    }

    /// Answers every request this much later: a round trip to a real account. A [`Duration`](std::time::Duration)
    /// or a distribution; for a latency of some kinds of operation only, see [`Effect::Delay`](crate::Effect).
    #[must_use]
    pub fn latency(mut self, latency: impl Into<Latency>) -> Self {
        self.faults.latency = Some(latency.into());
        self
    }

    /// Starts with this fault; may be called for several.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.faults.push(fault);
        self
    }

    /// Starts with these faults, in place of those that were named before.
    #[must_use]
    pub fn faults(mut self, plan: FaultPlan) -> Self {
        self.faults = plan;
        self
    }

    /// Draws what faults and latencies leave to chance from this seed instead of 0. The same seed and the same
    /// requests meet the same faults.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.faults.seed = Some(seed);
        self
    }

    /// Serves this many connections at once instead of 10,000; further ones are answered with 503 and closed.
    #[must_use]
    pub fn max_connections(mut self, count: usize) -> Self {
        self.limits.connections = count;
        self
    }

    /// Speaks HTTPS, with a certificate for `localhost` and the loopback addresses that is made at the start;
    /// [`Emulator::certificate_pem`] is what clients have to trust.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the server. It listens on the loopback address only.
    ///
    /// # Errors
    /// When the port is taken, a setting makes no sense, or the directory cannot be used.
    pub async fn start(self) -> Result<Emulator, EmulatorError> {
        let key = self.check()?;
        let security = self.security()?;
        // Before the data is opened: whoever finds the port taken has changed nothing.
        let (listener, address) = self.listen()?;
        let endpoint = format!("{}://{address}/", security.scheme());
        let settings = Settings {
            key,
            identities: self.identities,
            physical_partitions: self.physical_partitions,
            throughput: self.throughput,
            endpoint: endpoint.clone(),
        };
        let directory = self.directory.clone();
        // After a kill the log is read again, which can take a moment.
        let opening = tokio::task::spawn_blocking(move || Store::open(directory.as_deref()));
        let store = opening.await.map_err(EmulatorError::storage)??;
        let front = Arc::new(Front {
            service: Arc::new(Service::new(store, settings)),
            faults: Faults::new(self.faults),
            alarm: Alarm::start().map_err(EmulatorError::Thread)?,
            security,
            admission: Admission::new(self.limits),
        });
        let (stopping, stop) = watch::channel(false);
        let server = tokio::spawn(http_front::serve(listener, front.clone(), stop));
        Ok(Emulator {
            endpoint,
            key: self.key,
            directory: self.directory,
            front,
            stopping,
            server,
        })
    }

    /// The decoded key, when all settings make sense.
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
            return Err(refuse("max_connections", &0, "it would serve nobody"));
        }
        if self.throughput == Some(0) {
            let reason = "leave it out for no limit";
            return Err(refuse("throughput", &0, reason));
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

    fn listen(&self) -> Result<(TcpListener, SocketAddr), EmulatorError> {
        let port = self.port;
        let refuse = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AddrInUse => EmulatorError::PortInUse { port },
            _ => EmulatorError::Listen { port, source },
        };
        let socket = TcpSocket::new_v4().map_err(refuse)?;
        // As the standard library does on Unix: a restart need not wait for the connections of the last run.
        #[cfg(unix)]
        socket.set_reuseaddr(true).map_err(refuse)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        socket.bind(address).map_err(refuse)?;
        let listener = socket.listen(WAITING).map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        Ok((listener, address))
    }
}
