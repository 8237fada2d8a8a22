//! A running emulator.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::now;
use crate::emulator_error::EmulatorError;
use crate::fault::{Fault, Latency};
use crate::observe::RequestLog;
use crate::server_state::ServerState;
use crate::tls::Security;
use crate::{entra, op};

/// Maximum time for the requests in progress when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running emulator. It stops when it is dropped.
///
/// ```
/// use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = Emulator::start().await?;
/// println!("COSMOS_ENDPOINT={} COSMOS_KEY={}", emulator.endpoint(), emulator.key());
/// emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
/// assert_eq!(emulator.requests().total(), 0);
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Emulator {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) state: Arc<ServerState>,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) server: JoinHandle<()>,
}

impl Emulator {
    /// Returns the endpoint, `http://127.0.0.1:<port>/`, or `https://…` with TLS.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Returns the account key that the emulator accepts.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Issues a Microsoft Entra ID token of this identity that is valid from now for `lifetime`.
    /// The identity's role was set by
    /// [`EmulatorBuilder::identity`](crate::EmulatorBuilder::identity).
    pub fn entra_token(&self, object_id: &str, lifetime: Duration) -> String {
        entra::issue(object_id, lifetime, now())
    }

    /// Returns the data directory; `None` for an emulator in memory.
    pub fn data_dir(&self) -> Option<&std::path::Path> {
        self.directory.as_deref()
    }

    /// Returns the authority of the certificate as PEM, for clients to trust; `None` without TLS.
    pub fn certificate_pem(&self) -> Option<&str> {
        match &self.state.security {
            Security::Plain => None,
            #[cfg(feature = "tls")]
            Security::Tls(tls) => Some(&tls.authority_pem),
        }
    }

    /// Returns the log of requests since the start, or since the last reset.
    pub fn requests(&self) -> RequestLog {
        let log = &self.state.service.log;
        log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resets the log of requests.
    pub fn reset_requests(&self) {
        let log = &self.state.service.log;
        *log.lock().unwrap_or_else(PoisonError::into_inner) = RequestLog::default();
    }

    /// Splits a physical partition of a container in the middle of its hash range, as the service
    /// does with a partition that has grown too large. Returns the ids of its two children.
    /// Requests that name the parent's id get 410/1002.
    ///
    /// # Errors
    /// Fails when the container does not exist or has no such physical partition.
    pub fn split(
        &self,
        (database, container): (&str, &str),
        range_id: &str,
    ) -> Result<[String; 2], EmulatorError> {
        op::ranges::split(&self.state.service, (database, container), range_id).map_err(|error| {
            EmulatorError::Split {
                range_id: range_id.to_owned(),
                reason: error.to_string(),
            }
        })
    }

    /// Like [`split`](Self::split), but the split takes a while: requests to the partition and to its
    /// children get 410/1007 for this time after the call.
    ///
    /// # Errors
    /// Fails when the container does not exist or has no such physical partition.
    pub fn split_slowly(
        &self,
        container: (&str, &str),
        range_id: &str,
        duration: Duration,
    ) -> Result<[String; 2], EmulatorError> {
        let children = self.split(container, range_id)?;
        self.inject(Fault::splitting(container, range_id, &children).lasting(duration));
        Ok(children)
    }

    /// Adds a fault. Several faults can be active; the first one that matches a request wins.
    pub fn inject(&self, fault: Fault) {
        self.state.faults.add(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
    }

    /// Restarts the random numbers of all faults from a seed, to repeat a run. The seed is 0 at the
    /// start.
    pub fn seed_faults(&self, seed: u64) {
        self.state.faults.seed(seed);
    }

    /// Delays every response from now on; see
    /// [`EmulatorBuilder::latency`](crate::EmulatorBuilder::latency).
    pub fn set_latency(&self, latency: impl Into<Latency>) {
        self.state.faults.set_latency(latency.into());
    }

    /// Stops the emulator: it accepts no more connections and completes the requests in progress,
    /// for at most 5 seconds.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        let ended = tokio::time::timeout(STOP_TIMEOUT, &mut self.server).await;
        if ended.is_err() {
            tracing::warn!("requests were still in progress after {STOP_TIMEOUT:?}");
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.server.abort();
        // Another emulator can use the same directory as soon as this one is dropped.
        self.state.service.store.close();
    }
}
