//! The orchestrations in a container: duroxide's client for changes, the typed container for questions.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_provider::documents::{Durable, Instance, InstanceKey};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::Client;
use duroxide::providers::Provider;

use crate::connection::Connection;
use crate::exit::Failure;
use crate::model::Model;

/// Longer than any run: whoever looks after a container does not deliver its messages.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What commands about orchestrations work on.
#[derive(Clone)]
pub(crate) struct Orchestrations {
    pub container: ContainerClient<Durable>,
    pub provider: CosmosDBProvider,
    pub client: Arc<Client>,
}

impl Orchestrations {
    /// Sends nothing, and creates nothing.
    pub(crate) fn open(connection: &Connection, model: &Model) -> Result<Self, Failure> {
        model.holds_orchestrations()?;
        let container = connection
            .database()?
            .container::<Durable>(&connection.container);
        let config = CosmosDBProviderConfig {
            reconciler_interval: NEVER,
            ..CosmosDBProviderConfig::default()
        };
        let provider = CosmosDBProvider::on(container.clone(), &config);
        let store: Arc<dyn Provider> = Arc::new(provider.clone());
        Ok(Self {
            container,
            provider,
            client: Arc::new(Client::new(store)),
        })
    }

    /// The instance, which must exist.
    ///
    /// # Errors
    /// A finding that names it when it does not.
    pub(crate) async fn instance(&self, id: &str) -> Result<Instance, Failure> {
        let found = self.container.read(&InstanceKey::new(id)).await?;
        found
            .map(|stored| stored.document)
            .filter(Instance::is_created)
            .ok_or_else(|| Failure::finding(format!("there is no instance `{id}`")))
    }
}
