//! The state of the server, without its sockets.

use std::sync::{Mutex, PoisonError};

use super::index_build::IndexBuilds;
use super::metadata_budget::MetadataBudget;
use super::regions::Regions;
use super::replicas::Replicas;
use super::request_log::RequestLog;
use super::settings::{Settings, UniqueKeyAnswer};
use super::throughput::{Classes, Throughput};
use crate::sql::ParsedQueries;
use crate::store::Store;
use crate::store::offers::Offer;
use crate::time::Clock;

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) account: Account,
    /// The settings of the start. `ServerState::settings` has those in force.
    pub(crate) settings: Settings,
    pub(crate) log: Mutex<RequestLog>,
    pub(crate) throughput: Throughput,
    pub(crate) metadata: MetadataBudget,
    pub(crate) regions: Regions,
    pub(crate) index_builds: IndexBuilds,
    pub(crate) replicas: Replicas,
    pub(crate) unique_key_answer: Mutex<UniqueKeyAnswer>,
    pub(crate) parsed: ParsedQueries,
}

/// The account, as the start has made it from the settings.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The decoded account key.
    pub(crate) key: Vec<u8>,
    /// The address of the account.
    pub(crate) endpoint: String,
    /// The names and addresses of its regions; empty for a single region at the address of the
    /// account.
    pub(crate) regions: Vec<(String, String)>,
}

impl Service {
    pub(crate) fn new(store: Store, clock: Clock, account: Account, settings: Settings) -> Self {
        let classes = Classes {
            by_priority: settings.priority_based_execution,
            buckets: settings.throughput_buckets.clone(),
        };
        let throughput = Throughput::new(settings.throughput, classes, clock.clone());
        // If the offers cannot be read now, every request reads them.
        if Offer::any_replaced(&store.lock()).unwrap_or(true) {
            throughput.limit_by_offers();
        }
        Self {
            store,
            regions: Regions::new(&account.regions, &account.endpoint, clock.clone()),
            index_builds: IndexBuilds::new(clock.clone()),
            replicas: Replicas::new(clock.clone()),
            metadata: MetadataBudget::new(settings.metadata_budget, clock.clone()),
            unique_key_answer: Mutex::new(settings.unique_key_answer),
            parsed: ParsedQueries::default(),
            clock,
            account,
            settings,
            log: Mutex::default(),
            throughput,
        }
    }

    /// Returns the form of the answer to a violated unique key.
    pub(crate) fn unique_key_answer(&self) -> UniqueKeyAnswer {
        let form = self.unique_key_answer.lock();
        *form.unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs the SQL text of a query.
    pub(crate) fn note_query(&self, sql: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.note_query(sql);
    }
}
