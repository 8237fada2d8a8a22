//! The server as its users hold it: started, asked, stopped when dropped.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::builder::{EmulatorBuilder, EmulatorError};
use crate::fault::{Fault, Latency};
use crate::http_front::Front;
use crate::observe::RequestLog;
use crate::service::now;
use crate::tls::Security;
use crate::{entra, op};

/// How long requests that are being answered may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

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
    pub(crate) front: Arc<Front>,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) server: JoinHandle<()>,
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
        EmulatorBuilder::new()
    }

    /// Where it listens, `http://127.0.0.1:<port>/`, or `https` with TLS.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// The account key that it accepts.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A Microsoft Entra ID token of this identity, good from now on for so long; what it may do was said by
    /// [`EmulatorBuilder::identity`].
    pub fn entra_token(&self, object_id: &str, lifetime: Duration) -> String {
        entra::issue(object_id, lifetime, now())
    }

    /// Where the data is kept; `None` in memory.
    pub fn data_dir(&self) -> Option<&std::path::Path> {
        self.directory.as_deref()
    }

    /// The authority behind its certificate as PEM, for clients to trust; `None` without TLS.
    pub fn certificate_pem(&self) -> Option<&str> {
        match &self.front.security {
            Security::Plain => None,
            #[cfg(feature = "tls")]
            Security::Tls(tls) => Some(&tls.authority_pem),
        }
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

    /// Splits a physical partition of a container in the middle of its hash space, as the service does when one has
    /// grown too large, and returns the ids of its two children. From here on its own id is gone (410/1002).
    ///
    /// # Errors
    /// When there is no such container, or no such physical partition in it.
    pub fn split(
        &self,
        (database, container): (&str, &str),
        range_id: &str,
    ) -> Result<[String; 2], EmulatorError> {
        op::ranges::split(&self.front.service, (database, container), range_id).map_err(|error| {
            EmulatorError::Split {
                range_id: range_id.to_owned(),
                reason: error.to_string(),
            }
        })
    }

    /// Adds a fault; several may be active, and the first that strikes wins.
    pub fn inject(&self, fault: Fault) {
        self.front.faults.add(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.front.faults.clear();
    }

    /// Starts the draws of all faults anew from a seed, to repeat a run; it is 0 at the start.
    pub fn seed_faults(&self, seed: u64) {
        self.front.faults.seed(seed);
    }

    /// Answers every request this much later from now on; see [`EmulatorBuilder::latency`].
    pub fn set_latency(&self, latency: impl Into<Latency>) {
        self.front.faults.set_latency(latency.into());
    }

    /// Stops: no new connections, answers to what is being asked (for at most 5 seconds), then the end.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        let ended = tokio::time::timeout(LAST_ANSWERS, &mut self.server).await;
        if ended.is_err() {
            tracing::warn!("requests were still being answered after {LAST_ANSWERS:?}");
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.server.abort();
        // Who starts another one on the same directory in the next line finds it free.
        self.front.service.store.close();
    }
}
