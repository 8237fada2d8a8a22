//! The server as its users hold it: started, asked, stopped when dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fault::{Fault, Faults};
use crate::http_front::{self, Front};
use crate::observe::RequestLog;
use crate::service::Service;
use crate::store::Store;

/// Why the emulator did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
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
    #[error("the emulator's key is no base64")]
    Key,
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
    /// The directory cannot hold the data.
    #[error("cannot keep data: {reason}")]
    Storage {
        /// What went wrong, and what to do about it.
        reason: String,
    },
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

/// How the emulator is to be started.
#[derive(Clone, Debug)]
pub struct EmulatorBuilder {
    directory: Option<PathBuf>,
    port: u16,
    key: String,
    physical_partitions: u32,
    latency: Duration,
}

impl EmulatorBuilder {
    /// Keeps the data in this directory instead of in memory.
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

    /// Gives new containers this many physical partitions instead of one.
    #[must_use]
    pub fn physical_partitions(mut self, count: u32) -> Self {
        self.physical_partitions = count;
        self
    }

    /// Answers every request this much later: a round trip to a real account.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Starts the server. It listens on the loopback address only.
    ///
    /// # Errors
    /// When the port is taken, the key is no base64, or the directory cannot be used.
    pub async fn start(self) -> Result<Emulator, EmulatorError> {
        let key_bytes = STANDARD.decode(&self.key).map_err(|_| EmulatorError::Key)?;
        let store = Store::open(self.directory.as_deref())?;
        let listen = |source| EmulatorError::Listen {
            port: self.port,
            source,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
            .await
            .map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let front = Arc::new(Front {
            service: Arc::new(Service::new(
                store,
                key_bytes,
                self.physical_partitions,
                address,
            )),
            faults: Faults::default(),
            latency: self.latency,
        });
        let server = tokio::spawn(http_front::serve(listener, front.clone()));
        Ok(Emulator {
            address,
            key: self.key,
            front,
            server,
        })
    }
}

/// A running emulator. It stops when it is dropped.
#[derive(Debug)]
pub struct Emulator {
    address: SocketAddr,
    key: String,
    front: Arc<Front>,
    server: JoinHandle<()>,
}

impl Emulator {
    /// Starts an emulator in memory, on a free port, with the well-known key.
    ///
    /// # Errors
    /// When no port can be listened on.
    pub async fn start() -> Result<Self, EmulatorError> {
        Self::builder().start().await
    }

    /// Starts one with settings of your own.
    pub fn builder() -> EmulatorBuilder {
        EmulatorBuilder {
            directory: None,
            port: 0,
            key: crate::WELL_KNOWN_KEY.to_owned(),
            physical_partitions: 1,
            latency: Duration::ZERO,
        }
    }

    /// Where it listens, `http://127.0.0.1:<port>/`.
    pub fn endpoint(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The account key that it accepts.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What was asked of it so far.
    pub fn requests(&self) -> RequestLog {
        let log = &self.front.service.log;
        log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets what was asked of it, to count from here.
    pub fn reset_requests(&self) {
        let log = &self.front.service.log;
        *log.lock().unwrap_or_else(PoisonError::into_inner) = RequestLog::default();
    }

    /// Adds a fault; several may be active, and the first that strikes wins.
    pub fn inject(&self, fault: Fault) {
        self.front.faults.add(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.front.faults.clear();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.server.abort();
        // Who starts another one on the same directory in the next line finds it free.
        self.front.service.store.close();
    }
}
