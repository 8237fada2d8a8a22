//! The state that all connections share, and changes of its settings.

use std::sync::{Arc, Mutex, PoisonError};

use super::connection::admission::Admission;
use super::connection::tls::Security;
use crate::account::{EmulatorError, Service, Settings};
use crate::fault::Faults;
use crate::protocol::ServiceError;
use crate::time::Timer;

/// The service with the settings of its connections.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) service: Arc<Service>,
    pub(crate) faults: Faults,
    pub(crate) timer: Timer,
    pub(crate) security: Security,
    pub(crate) admission: Admission,
    /// Held by a change of the settings, so that concurrent changes do not undo each other.
    pub(crate) changing: Mutex<()>,
}

impl ServerState {
    /// Returns the settings in force, without the seed and the faults, which a change adds.
    pub(crate) fn settings(&self) -> Settings {
        let service = &self.service;
        Settings {
            seed: None,
            faults: Vec::new(),
            latency: self.faults.latency(),
            index_build: service.index_builds.pace(),
            replica_lag: service.replicas.lag(),
            ignore_latest_committed: service.replicas.ignores_strategy(),
            unique_key_answer: service.unique_key_answer(),
            multiple_write_locations: service.regions.has_multiple_write_locations(),
            ..service.settings.clone()
        }
    }

    /// Changes the settings that are not fixed at the start.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(Settings) -> Result<Settings, EmulatorError>,
    ) -> Result<(), EmulatorError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let running = self.settings();
        let wanted = change(running.clone())?;
        wanted.check_change(&running)?;
        self.apply(wanted).map_err(EmulatorError::storage)
    }

    /// Applies valid settings.
    pub(crate) fn apply(&self, settings: Settings) -> Result<(), ServiceError> {
        let service = &self.service;
        let replicas = &service.replicas;
        if settings.replica_lag != replicas.lag() {
            replicas.set_lag(&service.store.lock(), settings.replica_lag)?;
        }
        if let Some(seed) = settings.seed {
            replicas.seed(seed);
        }
        replicas.ignore_strategy(settings.ignore_latest_committed);
        let form = service.unique_key_answer.lock();
        *form.unwrap_or_else(PoisonError::into_inner) = settings.unique_key_answer;
        let locations = settings.multiple_write_locations;
        service.regions.set_multiple_write_locations(locations);
        service.index_builds.set_pace(settings.index_build);
        let Settings {
            latency,
            seed,
            faults,
            ..
        } = settings;
        self.faults.apply(latency, seed, faults);
        Ok(())
    }
}
