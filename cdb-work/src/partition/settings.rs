//! The settings of a container, on which all coordinators must agree before they take partitions: the schema
//! version, and the number of virtual partitions. The first coordinator writes them. Another number would
//! move streams to other partitions, so a coordinator with other settings refuses to open the container.

use cdb_client::Error;
use cdb_model::Document as _;

use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::streams::documents::{SCHEMA_VERSION, WorkSettings, WorkSettingsKey};
use crate::timing::AGREEMENT_PAUSE;

/// The partition of the settings.
const SETTINGS: &str = "work-settings";

impl Inner {
    /// Checks the settings, or writes them into a new container.
    ///
    /// # Errors
    /// [`WorkError::NewerSchema`] and [`WorkError::OtherPartitions`] when the stored settings are not
    /// those of this coordinator.
    pub(crate) async fn agree_on_settings(&self) -> Result<(), WorkError> {
        let configured = self.config.partitions.count();
        let latest = self.container.latest_committed();
        let key = WorkSettingsKey::new(SETTINGS);
        let mut pauses = std::iter::repeat_n(AGREEMENT_PAUSE, 2);
        let stored = loop {
            if let Some(stored) = latest.read(&key).await? {
                break stored.document;
            }
            let settings = WorkSettings {
                partition: SETTINGS.to_owned(),
                partitions: configured,
                schema_version: SCHEMA_VERSION,
                written_by: concat!("cdb-work ", env!("CARGO_PKG_VERSION")).to_owned(),
            };
            let created = self.container.run(settings.create()).await;
            let is_unclear = |error: &Error| error.is_conflict() || error.is_ambiguous();
            match (created, pauses.next()) {
                (Err(error), Some(pause)) if is_unclear(&error) => tokio::time::sleep(pause).await,
                (created, _) => return Ok(created.map(drop)?),
            }
        };
        if stored.schema_version > SCHEMA_VERSION {
            return Err(WorkError::NewerSchema {
                stored: stored.schema_version,
                supported: SCHEMA_VERSION,
                written_by: stored.written_by,
            });
        }
        if stored.partitions != configured {
            return Err(WorkError::OtherPartitions {
                stored: stored.partitions,
                configured,
            });
        }
        Ok(())
    }
}
