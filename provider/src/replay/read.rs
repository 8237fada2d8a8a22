//! Reads recordings from the store.

use duroxide::providers::ProviderError;

use super::recording::Recording;
use crate::error::{InOperation as _, Result};
use crate::provider::CosmosDBProvider;
use crate::{history, kv};

impl CosmosDBProvider {
    /// Reads the current execution of an instance, to be replayed by a new build:
    /// [`replay`](crate::replay). `None` for an instance that does not exist or has not started.
    ///
    /// The key-value store is the one at the start of the execution while it runs. The end of an
    /// execution merges its changes, so ended executions that read keys may differ from their
    /// recording.
    ///
    /// # Errors
    /// When the store cannot be read, or the history cannot be decoded. Tools too need the payload
    /// codec here.
    pub async fn recording(&self, instance: &str) -> Result<Option<Recording>, ProviderError> {
        self.read_recording(instance)
            .await
            .in_operation("recording")
    }

    async fn read_recording(&self, instance_id: &str) -> Result<Option<Recording>> {
        let container = self.container();
        let Some(stored) = history::read_instance(container, instance_id).await? else {
            return Ok(None);
        };
        let execution = stored.document.current_execution_id;
        let (events, mut values) = futures::try_join!(
            history::read_execution(container, instance_id, execution),
            kv::read_snapshot(container, instance_id),
        )?;
        if events.is_empty() {
            return Ok(None);
        }
        // A tool without the key must not compare encoded inputs with those of the code.
        let payloads = self.payloads().strict();
        let events = payloads.decode_history(events)?;
        payloads.decode_entries(&mut values)?;
        let recording = Recording::new(instance_id, execution, events);
        Ok(Some(recording.with_key_values(values)))
    }
}
