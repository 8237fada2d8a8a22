//! A running emulator: its endpoint and key, and what a test changes while it runs (partitions, regions, settings,
//! faults).

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::tls::Security;
use super::state::ServerState;
use crate::account::auth::entra;
use crate::account::{EmulatorError, Failover, Regions, RequestLog, Settings};
use crate::fault::Fault;
use crate::op;
use crate::protocol::ContainerName;
use crate::store::CLOSE_TIMEOUT;
use crate::time::stopwatch;

/// Maximum time until a writer without work has ended, even when the requests in progress have used
/// up the time to stop.
const MIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

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
    pub(crate) state: Arc<ServerState>,
    pub(crate) stopping: watch::Sender<bool>,
    /// The end of the time for the work in progress, once the emulator stops.
    pub(crate) stop_by: Option<Instant>,
    /// Serves the sockets; `None` for an emulator without sockets.
    pub(crate) server: Option<JoinHandle<()>>,
}

impl Emulator {
    /// Returns the endpoint, `http://127.0.0.1:<port>/`, or `https://…` with TLS.
    pub fn endpoint(&self) -> String {
        self.state.service.account.endpoint.clone()
    }

    /// Returns the account key that the emulator accepts.
    pub fn key(&self) -> &str {
        &self.state.service.settings.key
    }

    /// Returns the connection string, `AccountEndpoint=…;AccountKey=…;`.
    pub fn connection_string(&self) -> String {
        format!(
            "AccountEndpoint={};AccountKey={};",
            self.endpoint(),
            self.key()
        )
    }

    /// Issues a Microsoft Entra ID token of this identity that is valid from now for `lifetime`.
    /// [`Settings::identity`] sets the role of the identity.
    pub fn entra_token(&self, object_id: &str, lifetime: Duration) -> String {
        entra::issue(object_id, lifetime, self.state.service.clock.now())
    }

    /// Returns the data directory; `None` for an emulator in memory.
    pub fn data_dir(&self) -> Option<&std::path::Path> {
        self.state.service.settings.data_dir.as_deref()
    }

    /// Returns the authority of the certificate as PEM, for clients to trust; `None` without TLS.
    pub fn certificate_pem(&self) -> Option<&str> {
        match &self.state.security {
            Security::Plain => None,
            #[cfg(feature = "__tls")]
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
        database: &str,
        container: &str,
        range_id: &str,
    ) -> Result<[String; 2], EmulatorError> {
        let name = ContainerName::new(database, container);
        op::ranges::split(&self.state.service, &name, range_id).map_err(|error| {
            EmulatorError::Split {
                range_id: range_id.to_owned(),
                reason: error.to_string(),
            }
        })
    }

    /// Merges two physical partitions of a container whose hash ranges are next to each other, the
    /// lower one first, as an administrator of an account can. Returns the id of the merged one.
    /// Requests that name the id of a parent get 410/1002.
    ///
    /// # Errors
    /// Fails when the container does not exist or has no such neighbours.
    pub fn merge(
        &self,
        database: &str,
        container: &str,
        range_ids: [&str; 2],
    ) -> Result<String, EmulatorError> {
        let name = ContainerName::new(database, container);
        op::ranges::merge(&self.state.service, &name, range_ids).map_err(|error| {
            EmulatorError::Merge {
                range_ids: range_ids.map(str::to_owned),
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
        database: &str,
        container: &str,
        range_id: &str,
        duration: Duration,
    ) -> Result<[String; 2], EmulatorError> {
        let children = self.split(database, container, range_id)?;
        let incomplete = Fault::splitting(range_id, &children).in_container(database, container);
        self.inject(incomplete.lasting(duration));
        Ok(children)
    }

    /// Changes the settings that are not fixed at the start; see [`Settings`]. The faults of the
    /// changed settings are added to the active ones.
    ///
    /// ```
    /// use cdb_emulator::{Emulator, ReplicaLag};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
    /// let emulator = Emulator::start().await?;
    /// emulator.change(|settings| settings.replica_lag(ReplicaLag::writes(1)))?;
    /// let refused = emulator.change(|settings| settings.port(8081)).unwrap_err().to_string();
    /// assert!(refused.starts_with("invalid setting `port`: it is fixed at the start"));
    /// # emulator.stop().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails when a setting is invalid or fixed at the start, or the data cannot be written.
    pub fn change(&self, change: impl FnOnce(Settings) -> Settings) -> Result<(), EmulatorError> {
        self.state.change(|running| Ok(change(running)))
    }

    /// Sets the progress of the index transformation of a container to at least `percent`. At 100
    /// the new indexes are in use. Has no effect if no transformation is in progress.
    ///
    /// # Errors
    /// Fails when the container does not exist.
    pub fn set_index_progress(
        &self,
        database: &str,
        container: &str,
        percent: u8,
    ) -> Result<(), EmulatorError> {
        let name = ContainerName::new(database, container);
        op::set_index_progress(&self.state.service, &name, percent).map_err(|error| {
            EmulatorError::Container {
                container: format!("{database}/{container}"),
                reason: error.to_string(),
            }
        })
    }

    /// Returns the endpoint of a region of [`Settings::regions`]; `None` if the account has no
    /// region of this name.
    pub fn region_endpoint(&self, name: &str) -> Option<String> {
        self.regions().endpoint(name)
    }

    /// Moves the write region to the next region and returns its name. The account document names
    /// it immediately. The former write region answers writes with 403/3, and the global endpoint
    /// still leads there; see [`move_global_endpoint`](Self::move_global_endpoint).
    ///
    /// # Errors
    /// Fails when the account has no other region.
    pub fn failover(&self) -> Result<String, EmulatorError> {
        self.failover_with(&Failover::default())
    }

    /// Moves the write region and returns its name. The failover names the region and the times of
    /// its steps.
    ///
    /// # Errors
    /// Fails when the account has no such region.
    pub fn failover_with(&self, failover: &Failover) -> Result<String, EmulatorError> {
        self.regions().failover(failover).map_err(regions_error)
    }

    /// Lets the global endpoint lead to the write region, as the DNS entry of the account does some
    /// time after a failover.
    pub fn move_global_endpoint(&self) {
        self.regions().move_global_endpoint();
    }

    /// Moves the writes of a physical partition to a region, alone; the account document does not
    /// show it. Other regions answer its writes with 403/3, and also its reads with
    /// the header `x-ms-cosmos-hub-region-processing-only`. Moving them to the write region ends the failover.
    ///
    /// ```
    /// use cdb_emulator::Emulator;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
    /// let emulator = Emulator::builder().regions(["West US", "East US"]).partition_failover(true);
    /// let emulator = emulator.start().await?;
    /// let missing = emulator.fail_over_partition("db", "orders", "0", "East US");
    /// assert!(missing.is_err(), "no client has created the container yet");
    /// # emulator.stop().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails when there is no such partition or region, or no
    /// [`partition_failover`](Settings::partition_failover).
    pub fn fail_over_partition(
        &self,
        database: &str,
        container: &str,
        range_id: &str,
        region: &str,
    ) -> Result<(), EmulatorError> {
        if !self.state.service.settings.partition_failover {
            let reason = "single partitions do not fail over; set `Settings::partition_failover`";
            return Err(regions_error(reason.to_owned()));
        }
        let name = ContainerName::new(database, container);
        let moved = op::ranges::fail_over(&self.state.service, name, range_id, region);
        moved.map_err(|error| regions_error(error.to_string()))
    }

    /// Removes a region from the account: it answers every request with 403/1008. If it is the
    /// write region, the write region moves to the next region first.
    ///
    /// # Errors
    /// Fails when the account has no such region, or no other one for writes.
    pub fn remove_region(&self, name: &str) -> Result<(), EmulatorError> {
        self.regions()
            .set_removed(name, true)
            .map_err(regions_error)
    }

    /// Adds a removed region again.
    ///
    /// # Errors
    /// Fails when the account never had this region.
    pub fn restore_region(&self, name: &str) -> Result<(), EmulatorError> {
        self.regions()
            .set_removed(name, false)
            .map_err(regions_error)
    }

    /// Adds a fault. Several faults can be active; the first one that matches a request wins.
    pub fn inject(&self, fault: Fault) {
        self.state.faults.add(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
    }

    /// Stops the emulator: it accepts no more connections and completes the requests in progress,
    /// for at most 5 seconds.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        self.stop_by = Some(stopwatch() + CLOSE_TIMEOUT);
        let Some(server) = &mut self.server else {
            return;
        };
        let ended = tokio::time::timeout(CLOSE_TIMEOUT, server).await;
        if ended.is_err() {
            tracing::warn!("requests were still in progress after {CLOSE_TIMEOUT:?}");
        }
    }

    fn regions(&self) -> &Regions {
        &self.state.service.regions
    }
}

fn regions_error(reason: String) -> EmulatorError {
    EmulatorError::Regions { reason }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
        // Another emulator can use the same directory as soon as this one is dropped.
        let limit = self.stop_by.map_or(CLOSE_TIMEOUT, |stop_by| {
            stop_by.saturating_duration_since(stopwatch())
        });
        self.state.service.store.close(limit.max(MIN_CLOSE_TIMEOUT));
    }
}
