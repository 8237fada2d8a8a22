//! The start of an emulator.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::connection::admission::Admission;
use super::connection::tls::Security;
use super::emulator::Emulator;
use super::in_process;
use super::sockets::http;
use super::state::ServerState;
use crate::account::{Account, EmulatorError, Service, Settings};
use crate::fault::Faults;
use crate::store::Store;
use crate::time::{Clock, Timer};

/// What an emulator consists of, besides its settings.
struct Parts {
    /// The address of the account, then those of its regions.
    addresses: Vec<String>,
    security: Security,
    store: Store,
    clock: Clock,
    timer: Timer,
}

impl Settings {
    /// Starts the server.
    ///
    /// # Errors
    /// Fails when the port is in use, a setting is invalid, or the directory cannot be used.
    pub async fn start(self) -> Result<Emulator, EmulatorError> {
        self.check()?;
        let security = self.security()?;
        // Before the data is opened, so that a start on a port in use changes no data.
        let (endpoints, mut addresses) = self.listen_all()?;
        for address in &mut addresses {
            *address = format!("{}://{address}/", security.scheme());
        }
        let directory = self.data_dir.clone();
        // SQLite recovers its log after a kill, which can take a moment.
        let opening = tokio::task::spawn_blocking(move || Store::open(directory.as_deref()));
        let parts = Parts {
            addresses,
            security,
            store: opening.await.map_err(EmulatorError::storage)??,
            clock: self.clock.clone().unwrap_or_else(Clock::machine),
            timer: Timer::start().map_err(EmulatorError::Thread)?,
        };
        let mut emulator = self.assemble(parts)?;
        let stop = emulator.stopping.subscribe();
        let serving = http::serve_all(endpoints, emulator.state.clone(), stop);
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
        self.check()?;
        self.check_in_process()?;
        let regions = (0..self.regions.len()).map(in_process::region_endpoint);
        let parts = Parts {
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
        let account = Account {
            key: self.decoded_key()?,
            endpoint: addresses.next().unwrap_or_default(),
            regions: self.regions.iter().cloned().zip(addresses).collect(),
        };
        let state = Arc::new(ServerState {
            faults: Faults::new(parts.clock.clone()),
            admission: Admission::new(self.max_connections, self.limits),
            service: Arc::new(Service::new(
                parts.store,
                parts.clock,
                account,
                self.clone(),
            )),
            timer: parts.timer,
            security: parts.security,
            changing: Mutex::default(),
        });
        state.apply(self).map_err(EmulatorError::storage)?;
        Ok(Emulator {
            state,
            stopping: watch::Sender::new(false),
            stop_by: None,
            server: None,
        })
    }

    /// Refuses settings that need a socket or a directory.
    fn check_in_process(&self) -> Result<(), EmulatorError> {
        let (setting, reason) = if self.data_dir.is_some() {
            ("dataDir", "an emulator in process keeps its data in memory")
        } else if self.port != 0 {
            ("port", "an emulator in process has no socket")
        } else if self.tls {
            ("tls", "an emulator in process has no connections")
        } else {
            return Ok(());
        };
        Err(EmulatorError::setting(setting, reason))
    }

    fn security(&self) -> Result<Security, EmulatorError> {
        if !self.tls {
            return Ok(Security::Plain);
        }
        #[cfg(feature = "__tls")]
        return match crate::server::connection::tls::Tls::generate() {
            Ok(tls) => Ok(Security::Tls(tls)),
            Err(error) => Err(EmulatorError::Certificate(error)),
        };
        #[cfg(not(feature = "__tls"))]
        Err(EmulatorError::setting(
            "tls",
            "this build has no HTTPS; enable the feature `rustls-ring` or `rustls-aws-lc` of cdb-emulator",
        ))
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

    /// Returns the default settings, to change and [`start`](Settings::start).
    pub fn builder() -> Settings {
        Settings::default()
    }
}
