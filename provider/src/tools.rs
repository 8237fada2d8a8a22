//! A provider for tools: they look at a container and change single instances, and leave the work to runtimes.

use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_coordination::InMemoryLeaseProvider;
use duroxide::providers::ProviderError;

use crate::config::CosmosDBProviderConfig;
use crate::documents::{Durable, Schema};
use crate::error::InOperation as _;
use crate::provider::CosmosDBProvider;
use crate::schema;

impl CosmosDBProvider {
    /// Works on a container for a tool that inspects or repairs it and runs no orchestrations. Sends nothing by itself: the
    /// retention and the deliveries of others are left to runtimes. Never writes the gate, so a runtime of
    /// `duroxide-cdb` goes on working on its container. `config.membership` is not used.
    ///
    /// `schema` is what the tool has read from the container:
    ///
    /// ```
    /// use cdb_provider::documents::{SCHEMA_PARTITION, SchemaKey};
    /// use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let store = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
    /// # let container = store.container().clone();
    /// let schema = container.read(&SchemaKey::new(SCHEMA_PARTITION)).await?;
    /// let schema = schema.as_ref().map(|stored| &stored.document);
    /// let tool = CosmosDBProvider::for_tools(container, &CosmosDBProviderConfig::default(), schema)?;
    /// # drop(tool); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When a setting of `config` cannot work, or `schema` is of a newer form.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn for_tools(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
        schema: Option<&Schema>,
    ) -> Result<Self, ProviderError> {
        config.validate()?;
        schema::check(container.name(), schema).in_operation("for_tools")?;
        let leases = Arc::new(InMemoryLeaseProvider::all());
        Ok(Self::open(container, config, leases, None))
    }
}
