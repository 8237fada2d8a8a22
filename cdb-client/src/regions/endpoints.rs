//! Chooses the endpoint of each request among the regions of the account.
//!
//! Until the account document is read, every request goes to the configured endpoint, and so does
//! every request to an account with one region: an emulator in a container names an endpoint that
//! its clients may not reach. Source: the official clients' "endpoint discovery".

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;

use crate::partitions::RangeEndpoints;
use crate::protocol::Route;
use crate::regions::account::{Account, Region, normalized};
use crate::transport::endpoint::{is_loopback, parse_endpoint};

/// How long requests avoid an endpoint that could not be reached, while there is another one.
const UNREACHABLE: Duration = Duration::from_secs(30);

/// The endpoints of one account.
#[derive(Debug)]
pub(crate) struct Regions {
    configured: Arc<str>,
    preferred: Vec<String>,
    state: Mutex<State>,
    /// Held by the caller that reads the account document.
    pub(crate) reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The endpoint of the first write region, which alone accepts changes of containers. `None` for
    /// an account with one region.
    hub: Option<Arc<str>>,
    /// The endpoints of all write regions, preferred ones first.
    writes: Vec<Arc<str>>,
    has_several_writes: bool,
    /// The endpoints of all regions by failover priority, if the writes of a physical partition can
    /// move between them. Otherwise empty.
    failover: Vec<Arc<str>>,
    /// The endpoints of the preferred regions that answer reads.
    reads: Vec<Arc<str>>,
    /// When the account document was last requested.
    requested_at: Option<Instant>,
    is_known: bool,
    unreachable: Vec<(Arc<str>, Instant)>,
}

impl Regions {
    pub(crate) fn new(configured: &str, preferred: Vec<String>) -> Self {
        Self {
            configured: configured.into(),
            preferred,
            state: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// Whether the account document must be read before a request can be routed.
    pub(crate) fn is_needed(&self) -> bool {
        !self.preferred.is_empty() && !self.lock().is_known
    }

    /// Whether the configured endpoint is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        Url::parse(&self.configured).is_ok_and(|url| is_loopback(&url))
    }

    /// Whether the account has several regions, as far as this client knows.
    pub(crate) fn has_several(&self) -> bool {
        self.lock().hub.is_some()
    }

    /// Whether several regions accept writes, as far as this client knows.
    pub(crate) fn has_several_writes(&self) -> bool {
        self.lock().has_several_writes
    }

    /// Whether the writes of a physical partition can move to another region, as far as this client
    /// knows.
    pub(crate) fn has_partition_failover(&self) -> bool {
        !self.lock().failover.is_empty()
    }

    /// Whether this is the endpoint of the first write region.
    pub(crate) fn is_hub(&self, endpoint: &Arc<str>) -> bool {
        self.lock().hub.as_ref() == Some(endpoint)
    }

    /// Returns the first endpoint of `route` that is not in `skipped`. `None` when all are.
    pub(crate) fn endpoint(
        &self,
        route: Route,
        range: &RangeEndpoints,
        skipped: &[Arc<str>],
    ) -> Option<Arc<str>> {
        let mut candidates = self.candidates(route, range);
        candidates.retain(|candidate| !skipped.contains(candidate));
        candidates.into_iter().next()
    }

    /// Returns the endpoints of `route` for a physical partition, reachable ones first.
    pub(crate) fn candidates(&self, route: Route, range: &RangeEndpoints) -> Vec<Arc<str>> {
        let state = self.lock();
        let configured = [&self.configured];
        let hub = state.hub.iter().chain(&state.failover);
        let writes = range.writes.iter().chain(&state.writes);
        let writes = writes.chain(&state.failover);
        let ordered: Vec<&Arc<str>> = match route {
            Route::Metadata => hub.chain(configured).collect(),
            Route::Write => writes.chain(configured).collect(),
            Route::Read => (state.reads.iter().chain(writes))
                .chain(configured)
                .collect(),
            Route::Account => (configured.into_iter().chain(writes))
                .chain(&state.reads)
                .collect(),
        };
        let mut candidates: Vec<Arc<str>> = Vec::new();
        for endpoint in ordered {
            if !candidates.contains(endpoint) {
                candidates.push(endpoint.clone());
            }
        }
        let now = Instant::now();
        candidates
            .sort_by_key(|endpoint| state.avoids(endpoint, now) || range.avoids(endpoint, now));
        candidates
    }

    /// Notes that an endpoint cannot be reached or does not serve the account.
    pub(crate) fn mark_unreachable(&self, endpoint: &Arc<str>) {
        let now = Instant::now();
        let mut state = self.lock();
        state
            .unreachable
            .retain(|(known, since)| known != endpoint && now - *since < UNREACHABLE);
        state.unreachable.push((endpoint.clone(), now));
    }

    /// Whether the account document was requested less than `age` ago.
    pub(crate) fn requested_within(&self, age: Duration) -> bool {
        let requested_at = self.lock().requested_at;
        requested_at.is_some_and(|at| at.elapsed() < age)
    }

    /// Notes that the account document was requested.
    pub(crate) fn note_request(&self) {
        self.lock().requested_at = Some(Instant::now());
    }

    /// Applies the account document.
    pub(crate) fn apply(&self, account: &Account) {
        let all = account.write_regions.iter();
        let several = account.region_count() > 1;
        let hub = all.clone().find_map(|region| self.usable(region));
        let hub = hub.filter(|_| several);
        let (mut reads, mut writes, mut failover) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
        if hub.is_some() {
            reads = self.read_endpoints(account);
            let preferred = self.preferred.iter();
            let preferred = preferred.filter_map(|name| named(&account.write_regions, name));
            writes.extend(preferred.chain(all).filter_map(|it| self.usable(it)));
            // As in the official clients: azure-cosmos-dotnet-v3
            // `IsRequestEligibleForPerPartitionAutomaticFailover`.
            if account.has_partition_failover && !account.has_several_write_regions {
                let regions = account.read_regions.iter();
                failover.extend(regions.filter_map(|region| self.usable(region)));
            }
        }
        let mut state = self.lock();
        if state.hub != hub {
            tracing::info!(endpoint = hub.as_deref(), "write region is set");
        }
        state.is_known = true;
        state.has_several_writes = hub.is_some() && account.has_several_write_regions;
        state.hub = hub;
        (state.reads, state.writes, state.failover) = (reads, writes, failover);
    }

    fn read_endpoints(&self, account: &Account) -> Vec<Arc<str>> {
        let mut endpoints = Vec::new();
        for name in &self.preferred {
            if let Some(region) = named(&account.read_regions, name) {
                endpoints.extend(self.usable(region));
            } else {
                tracing::warn!(
                    region = name,
                    "preferred region does not answer reads of this account; other regions are used"
                );
            }
        }
        endpoints
    }

    /// Returns the endpoint of a region. `None` if requests to it would be less protected than
    /// those to the configured endpoint: other scheme, or off this machine.
    fn usable(&self, region: &Region) -> Option<Arc<str>> {
        let url = parse_endpoint(&region.endpoint).ok()?;
        let configured = Url::parse(&self.configured).ok()?;
        let alike =
            url.scheme() == configured.scheme() && is_loopback(&url) == is_loopback(&configured);
        if !alike {
            tracing::warn!(
                region = region.name,
                "endpoint of this region differs in scheme or loopback from the configured one; it is not used"
            );
        }
        alike.then(|| url.as_str().trim_end_matches('/').into())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn avoids(&self, endpoint: &Arc<str>, now: Instant) -> bool {
        self.unreachable
            .iter()
            .any(|(known, since)| known == endpoint && now - *since < UNREACHABLE)
    }
}

fn named<'a>(regions: &'a [Region], name: &str) -> Option<&'a Region> {
    let name = normalized(name);
    regions
        .iter()
        .find(|region| normalized(&region.name) == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONFIGURED: &str = "https://a.documents.azure.com";

    fn account(write: &[(&str, &str)], read: &[(&str, &str)]) -> Account {
        let list = |regions: &[(&str, &str)]| -> Vec<_> {
            let region = |(name, endpoint): &(&str, &str)| json!({"name": name, "databaseAccountEndpoint": endpoint});
            regions.iter().map(region).collect()
        };
        let document = json!({"writableLocations": list(write), "readableLocations": list(read)});
        serde_json::from_value(document).unwrap()
    }

    fn regions(preferred: &[&str]) -> Regions {
        Regions::new(CONFIGURED, preferred.iter().map(|&p| p.into()).collect())
    }

    fn endpoints(regions: &Regions, route: Route) -> Vec<String> {
        let candidates = regions.candidates(route, &RangeEndpoints::default());
        let candidates = candidates.into_iter();
        candidates.map(|endpoint| endpoint.to_string()).collect()
    }

    const EAST: (&str, &str) = ("East US", "https://a-eastus.documents.azure.com:443/");
    const WEST: (&str, &str) = ("West US", "https://a-westus.documents.azure.com:443/");

    #[test]
    fn an_account_with_one_region_is_reached_at_the_configured_endpoint() {
        let regions = regions(&["East US"]);
        for host in ["https://172.17.0.2:8081/", EAST.1] {
            regions.apply(&account(&[("East US", host)], &[("East US", host)]));
            for route in [Route::Write, Route::Read] {
                assert_eq!(endpoints(&regions, route), [CONFIGURED]);
            }
        }
    }

    #[test]
    fn reads_prefer_regions_in_order_and_writes_go_to_the_write_region() {
        let regions = regions(&["westus", "Mars", "East US"]);
        regions.apply(&account(&[EAST], &[EAST, WEST]));
        let (east, west) = (
            "https://a-eastus.documents.azure.com",
            "https://a-westus.documents.azure.com",
        );
        assert_eq!(endpoints(&regions, Route::Write), [east, CONFIGURED]);
        assert_eq!(endpoints(&regions, Route::Read), [west, east, CONFIGURED]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_endpoint_is_the_last_candidate_for_half_a_minute() {
        let regions = regions(&["West US"]);
        regions.apply(&account(&[EAST], &[EAST, WEST]));
        let west = endpoints(&regions, Route::Read).remove(0);
        regions.mark_unreachable(&west.as_str().into());
        assert_ne!(endpoints(&regions, Route::Read)[0], west);
        tokio::time::advance(UNREACHABLE).await;
        assert_eq!(endpoints(&regions, Route::Read)[0], west);
    }

    #[test]
    fn an_endpoint_without_encryption_or_on_this_machine_is_not_used() {
        for other in ["http://a-westus.documents.azure.com/", "https://127.0.0.1/"] {
            let regions = regions(&["West US"]);
            regions.apply(&account(&[EAST], &[EAST, ("West US", other)]));
            assert_eq!(endpoints(&regions, Route::Read).len(), 2, "{other}");
        }
    }
}
