//! The state of the server, without its sockets.

use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::entra::Identities;
use crate::error::ServiceError;
use crate::index_build::IndexBuilds;
use crate::observe::RequestLog;
use crate::regions::Regions;
use crate::replicas::{ReplicaLag, Replicas};
use crate::sql::ParsedQueries;
use crate::store::Store;
use crate::store::offers::Offer;
use crate::throughput::Throughput;

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) log: Mutex<RequestLog>,
    pub(crate) throughput: Throughput,
    pub(crate) regions: Regions,
    pub(crate) index_builds: IndexBuilds,
    pub(crate) replicas: Replicas,
    pub(crate) parsed: ParsedQueries,
}

/// The settings of the account.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The decoded account key.
    pub(crate) key: Vec<u8>,
    /// The identities whose Entra ID tokens are accepted.
    pub(crate) identities: Identities,
    /// The number of physical partitions of a new container.
    pub(crate) physical_partitions: u32,
    /// Request units per second of a container that was created without an offer; unlimited when
    /// `None`.
    pub(crate) throughput: Option<u32>,
    /// How long new containers keep all versions and deletes, in minutes; not at all when `None`.
    pub(crate) version_minutes: Option<u32>,
    /// The address of the account.
    pub(crate) endpoint: String,
    /// The names and addresses of its regions; empty for a single region at the address of the
    /// account.
    pub(crate) regions: Vec<(String, String)>,
}

impl Service {
    pub(crate) fn new(store: Store, clock: Clock, settings: Settings) -> Self {
        let throughput = Throughput::new(settings.throughput, clock.clone());
        // If the offers cannot be read now, every request reads them.
        if Offer::any_replaced(&store.lock()).unwrap_or(true) {
            throughput.limit_by_offers();
        }
        Self {
            store,
            regions: Regions::new(&settings.regions, &settings.endpoint, clock.clone()),
            index_builds: IndexBuilds::new(clock.clone()),
            replicas: Replicas::new(clock.clone()),
            parsed: ParsedQueries::default(),
            clock,
            settings,
            log: Mutex::default(),
            throughput,
        }
    }

    /// Sets how far replicas lag.
    pub(crate) fn set_replica_lag(&self, lag: Option<ReplicaLag>) -> Result<(), ServiceError> {
        self.replicas.set_lag(&self.store.lock(), lag)
    }

    /// Logs the SQL text of a query.
    pub(crate) fn note_query(&self, sql: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.note_query(sql);
    }
}
