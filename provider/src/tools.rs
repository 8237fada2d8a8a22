//! A provider for tools that inspect a container and change single instances, and leave the work to
//! runtimes.

use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_coordination::InMemoryLeaseProvider;
use duroxide::providers::{ProviderError, WorkItem};

use crate::config::CosmosDBProviderConfig;
use crate::documents::{Durable, Schema};
use crate::error::InOperation as _;
use crate::provider::CosmosDBProvider;
use crate::schema;
use crate::store::Store;

impl CosmosDBProvider {
    /// Opens a container for a tool that inspects or repairs it and runs no orchestrations. Starts
    /// no background task: retention and delivery are left to runtimes. Never writes the gate, so a
    /// runtime of `duroxide-cdb` can continue to use its container. Ignores `config.membership`.
    ///
    /// Without the container's payload codec, or without a key of it, the tool works too: encoded
    /// payloads are returned as they are stored, `cdb:payload:…`. [`decode`](Self::decode) serves
    /// tools that read documents themselves. With another codec than the container's, or without
    /// it, new payloads are refused; a cancellation is not, and its reason is stored as it is.
    ///
    /// `schema` is the schema document that the tool read from the container:
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
    /// Fails when a setting of `config` cannot work, or `schema` has a newer version.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub fn for_tools(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
        schema: Option<&Schema>,
    ) -> Result<Self, ProviderError> {
        config.check_settings()?;
        schema::check(container.name(), schema).in_operation("for_tools")?;
        let leases = Arc::new(InMemoryLeaseProvider::all());
        let codec = config.payload_codec.as_ref().map(|codec| codec.name());
        let foreign = schema::foreign_codec(container.name(), schema, codec);
        let mut store = Store::new(container, config, None);
        store.payloads = store.payloads.lenient(foreign);
        Ok(Self::of(store, config, leases, None))
    }

    /// Decodes a payload that was read from a document. Returns a payload of another codec or of a
    /// missing key as it is stored.
    pub fn decode(&self, payload: String) -> String {
        self.payloads().readable(payload)
    }

    /// Decodes the payloads of a message that was read from a document, like
    /// [`decode`](Self::decode).
    pub fn decode_message(&self, message: WorkItem) -> WorkItem {
        self.payloads().readable_message(message)
    }
}
