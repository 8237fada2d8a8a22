//! The regions of the account: their endpoints, the write region, and failovers.
//!
//! All regions share the data. Each has an endpoint of its own, and the global endpoint leads to one
//! of them, as the DNS entry of an account does. A failover has three steps, at three times on the
//! service: the write region changes, the account document names the new one, and the global
//! endpoint leads there. Sources: azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs` (403/3 WriteForbidden,
//! 403/1008 DatabaseAccountNotFound).
//!
//! The writes of a single physical partition can move too; the account document does not show that.
//! Source: learn.microsoft.com/azure/cosmos-db/per-partition-automatic-failover.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::protocol::{ContainerName, Needs, ServiceError};
use crate::time::{Clock, millis};

/// The name of the only region of an account without configured regions.
const ONLY: &str = "Local";

/// A move of the write region to another region, and the times of its steps.
///
/// ```
/// use std::time::Duration;
/// use cdb_emulator::{Emulator, Failover};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = Emulator::builder().regions(["West US", "East US"]).start().await?;
/// let failover = Failover::to("East US")
///     .document_after(Duration::from_secs(2))
///     .dns_after(Duration::from_secs(5));
/// emulator.failover_with(&failover)?; // the West US answers writes with 403/3 from now on
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Failover {
    /// The new write region; the next region of the account when `None`.
    pub to: Option<String>,
    /// The time after which the account document names the new write region. In JSON
    /// `documentAfterMs`.
    #[serde(rename = "documentAfterMs", with = "millis")]
    pub document_after: Duration,
    /// The time after which the global endpoint leads to the new write region; never when `None`.
    /// In JSON `dnsAfterMs`.
    #[serde(rename = "dnsAfterMs", with = "millis::optional")]
    pub dns_after: Option<Duration>,
}

impl Failover {
    /// Returns a failover to this region. The account document names it immediately, and the global
    /// endpoint stays with the former write region.
    pub fn to(region: impl Into<String>) -> Self {
        Self {
            to: Some(region.into()),
            ..Self::default()
        }
    }

    /// Lets the account document name the new write region only after this time.
    #[must_use]
    pub fn document_after(mut self, time: Duration) -> Self {
        self.document_after = time;
        self
    }

    /// Lets the global endpoint lead to the new write region after this time.
    #[must_use]
    pub fn dns_after(mut self, time: Duration) -> Self {
        self.dns_after = Some(time);
        self
    }
}

/// The regions of the account.
#[derive(Debug)]
pub(crate) struct Regions {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    clock: Clock,
    regions: Vec<Region>,
    /// The region that accepts writes.
    write: usize,
    /// The regions that accept the writes of physical partitions that failed over alone.
    moved: HashMap<(ContainerName, String), usize>,
    /// The write region of the account document.
    document: Delayed,
    /// The region of the global endpoint.
    global: Delayed,
    multiple_write_locations: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    name: String,
    endpoint: String,
    removed: bool,
}

/// A region that is replaced by another one at a time.
#[derive(Debug, Default)]
struct Delayed {
    region: usize,
    next: Option<(Duration, usize)>,
}

/// The regions as `/_admin/regions` shows them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RegionsState {
    regions: Vec<Region>,
    write_region: String,
    document_write_region: String,
    global_endpoint_region: String,
}

impl Delayed {
    fn get(&mut self, now: Duration) -> usize {
        if let Some((_, region)) = self.next.take_if(|(at, _)| *at <= now) {
            self.region = region;
        }
        self.region
    }

    fn set(&mut self, region: usize, delay: Duration, now: Duration) {
        self.get(now);
        self.next = now.checked_add(delay).map(|at| (at, region));
    }
}

impl Regions {
    /// Creates the regions, each with its name and endpoint. The first one is the write region.
    pub(crate) fn new(regions: &[(String, String)], global_endpoint: &str, clock: Clock) -> Self {
        let region = |name: &str, endpoint: &str| Region {
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            removed: false,
        };
        let regions = if regions.is_empty() {
            vec![region(ONLY, global_endpoint)]
        } else {
            let all = regions.iter();
            all.map(|(name, endpoint)| region(name, endpoint)).collect()
        };
        Self {
            state: Mutex::new(State {
                clock,
                regions,
                write: 0,
                moved: HashMap::new(),
                document: Delayed::default(),
                global: Delayed::default(),
                multiple_write_locations: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of the region that an endpoint belongs to; `None` is the global endpoint.
    pub(crate) fn name(&self, endpoint: Option<usize>) -> String {
        let mut state = self.state();
        let region = state.at(endpoint);
        state.regions[region].name.clone()
    }

    /// Returns the endpoint of a region; `None` if the account has no such region.
    pub(crate) fn endpoint(&self, name: &str) -> Option<String> {
        let state = self.state();
        let region = state.find(name).ok()?;
        Some(state.regions[region].endpoint.clone())
    }

    /// Whether the writes of a physical partition of this container are elsewhere than others.
    pub(crate) fn has_moved(&self, container: &ContainerName) -> bool {
        let state = self.state();
        state.moved.keys().any(|(moved, _)| moved == container)
    }

    /// Fails if the region of an endpoint was removed, or is not the one that a request needs.
    pub(crate) fn check(
        &self,
        endpoint: Option<usize>,
        needs: Needs,
        partitions: &[(ContainerName, String)],
    ) -> Result<(), ServiceError> {
        let mut state = self.state();
        let region = state.at(endpoint);
        let refuse =
            |substatus, message| Err(ServiceError::new(403, substatus, "Forbidden", message));
        if state.regions[region].removed {
            return refuse(1008, "The database account does not exist in this region.");
        }
        let is_served = match needs {
            Needs::Any => true,
            Needs::Writable if state.multiple_write_locations => true,
            Needs::Writable | Needs::Hub if partitions.is_empty() => region == state.write,
            Needs::Writable | Needs::Hub => {
                let mut hubs = partitions
                    .iter()
                    .map(|partition| state.moved.get(partition));
                hubs.all(|hub| region == *hub.unwrap_or(&state.write))
            }
        };
        if !is_served {
            let message = "The requested operation cannot be performed at this region.";
            return refuse(3, message);
        }
        Ok(())
    }

    /// Moves the write region. Returns its name, or why it cannot move.
    pub(crate) fn failover(&self, failover: &Failover) -> Result<String, String> {
        let mut state = self.state();
        let to = match &failover.to {
            Some(name) => state.find(name)?,
            None => state.next_region()?,
        };
        if state.regions[to].removed {
            return Err(format!("region `{}` was removed", state.regions[to].name));
        }
        let now = state.clock.monotonic();
        state.write = to;
        state.document.set(to, failover.document_after, now);
        if let Some(delay) = failover.dns_after {
            state.global.set(to, delay, now);
        }
        Ok(state.regions[to].name.clone())
    }

    /// Moves the writes of a physical partition to a region.
    pub(crate) fn fail_over_partition(
        &self,
        container: ContainerName,
        range: &str,
        to: &str,
    ) -> Result<(), String> {
        let mut state = self.state();
        let region = state.find(to)?;
        let partition = (container, range.to_owned());
        if region == state.write {
            state.moved.remove(&partition);
        } else {
            state.moved.insert(partition, region);
        }
        Ok(())
    }

    /// Leaves the writes of a split partition where they are.
    pub(crate) fn follow_split(&self, container: &ContainerName, range: &str, children: &[String]) {
        let mut state = self.state();
        let parent = (container.clone(), range.to_owned());
        if let Some(region) = state.moved.remove(&parent) {
            let children = children.iter().cloned();
            let moved = children.map(|child| ((container.clone(), child), region));
            state.moved.extend(moved);
        }
    }

    /// Lets the global endpoint lead to the write region.
    pub(crate) fn move_global_endpoint(&self) {
        let mut state = self.state();
        let (write, now) = (state.write, state.clock.monotonic());
        state.global.set(write, Duration::ZERO, now);
    }

    /// Removes a region from the account, or adds it again. The write region moves to the next
    /// region before it is removed.
    pub(crate) fn set_removed(&self, name: &str, removed: bool) -> Result<(), String> {
        let region = self.state().find(name)?;
        if removed && self.state().write == region {
            self.failover(&Failover::default())?;
        }
        self.state().regions[region].removed = removed;
        Ok(())
    }

    pub(crate) fn set_multiple_write_locations(&self, enabled: bool) {
        self.state().multiple_write_locations = enabled;
    }

    pub(crate) fn has_multiple_write_locations(&self) -> bool {
        self.state().multiple_write_locations
    }

    /// Returns the locations of the account document. An account without named regions is at the
    /// host by which the client has reached it, which can be the name of a container.
    pub(crate) fn locations(&self, host: Option<&str>) -> Value {
        let mut state = self.state();
        let now = state.clock.monotonic();
        let write = state.document.get(now);
        let mut regions: Vec<&Region> = state.regions.iter().collect();
        regions.rotate_left(write);
        regions.retain(|region| !region.removed);
        let readable: Vec<Value> = regions
            .into_iter()
            .map(|region| region.to_json(host))
            .collect();
        let writable = if state.multiple_write_locations {
            &*readable
        } else {
            readable.get(..1).unwrap_or_default()
        };
        json!({
            "writableLocations": writable, "readableLocations": readable,
            "enableMultipleWriteLocations": state.multiple_write_locations,
        })
    }

    pub(crate) fn all(&self) -> RegionsState {
        let mut state = self.state();
        let now = state.clock.monotonic();
        let (document, global) = (state.document.get(now), state.global.get(now));
        let name = |region: usize| state.regions[region].name.clone();
        RegionsState {
            write_region: name(state.write),
            document_write_region: name(document),
            global_endpoint_region: name(global),
            regions: state.regions.clone(),
        }
    }
}

impl State {
    fn at(&mut self, endpoint: Option<usize>) -> usize {
        let now = self.clock.monotonic();
        endpoint.unwrap_or_else(|| self.global.get(now))
    }

    fn find(&self, name: &str) -> Result<usize, String> {
        let found = self.regions.iter().position(|region| region.name == name);
        found.ok_or_else(|| format!("the account has no region `{name}`"))
    }

    /// Returns the region after the write region that was not removed.
    fn next_region(&self) -> Result<usize, String> {
        let count = self.regions.len();
        let others = (1..count).map(|step| (self.write + step) % count);
        let mut others = others.filter(|region| !self.regions[*region].removed);
        let reason = "the account has no other region; set some with `Settings::regions`";
        others.next().ok_or_else(|| reason.to_owned())
    }
}

impl Region {
    fn to_json(&self, host: Option<&str>) -> Value {
        let scheme = self.endpoint.split("://").next();
        let endpoint = match (host, scheme) {
            (Some(host), Some(scheme)) if self.name == ONLY => format!("{scheme}://{host}/"),
            _ => self.endpoint.clone(),
        };
        json!({ "name": self.name, "databaseAccountEndpoint": endpoint })
    }
}
