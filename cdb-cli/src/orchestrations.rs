//! The orchestrations in a container: duroxide's client for changes, the typed container for queries.

use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_model::Query;
use cdb_provider::documents::{
    Durable, Instance, InstanceKey, NEVER, OrchestratorItem, SCHEMA_PARTITION, SchemaKey,
};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::Client;
use duroxide::providers::Provider;

use crate::connection::Connection;
use crate::exit::Failure;
use crate::model::Model;
use crate::view::work_item::describe;

/// What commands about orchestrations work on.
#[derive(Clone)]
pub(crate) struct Orchestrations {
    pub container: ContainerClient<Durable>,
    pub provider: CosmosDBProvider,
    pub client: Arc<Client>,
}

impl Orchestrations {
    /// Reads the schema of the container, and writes nothing.
    ///
    /// # Errors
    /// When the container keeps no orchestrations, has a newer form than this command knows, or cannot be read.
    pub(crate) async fn open(connection: &Connection, model: &Model) -> Result<Self, Failure> {
        model.holds_orchestrations()?;
        let container = connection
            .database()?
            .container::<Durable>(&connection.container);
        let config = CosmosDBProviderConfig::default();
        let schema = container.read(&SchemaKey::new(SCHEMA_PARTITION)).await?;
        let schema = schema.as_ref().map(|stored| &stored.document);
        let provider = CosmosDBProvider::for_tools(container.clone(), &config, schema)
            .map_err(|error| Failure::usage(error.message))?;
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
        let found = found.map(|stored| stored.document);
        match found {
            Some(instance) if instance.is_created() => Ok(instance),
            begun => Err(self.missing(id, begun.as_ref()).await?),
        }
    }

    /// That there is no instance, or not yet: one that nobody has taken up is a message in a queue.
    async fn missing(&self, id: &str, begun: Option<&Instance>) -> Result<Failure, Failure> {
        let messages = Query::<OrchestratorItem>::in_partition(id);
        let messages = self.container.query(messages).all().await?;
        let mut waiting = messages
            .into_iter()
            .map(|stored| stored.document)
            .filter(|message| message.visible_at < NEVER);
        let Some(first) = waiting.next() else {
            return Ok(Failure::finding(format!("there is no instance `{id}`")));
        };
        let attempts = begun.and_then(|instance| instance.attempts.values().copied().max());
        let taken = match attempts {
            None | Some(0) => "no runtime has taken it; look whether one runs".to_owned(),
            Some(attempts) => format!(
                "it was taken {attempts} times and given back; look whether a runtime has the orchestration registered"
            ),
        };
        Ok(Failure::finding(format!(
            "there is no instance `{id}` yet: {} waits for it, and {taken}",
            describe(first.work_item.header())
        )))
    }

    /// The instance, which must have more to do.
    ///
    /// # Errors
    /// A finding that says how it ended.
    pub(crate) async fn running(&self, id: &str) -> Result<Instance, Failure> {
        let instance = self.instance(id).await?;
        if instance.has_more() {
            return Ok(instance);
        }
        Err(Failure::finding(format!(
            "instance `{id}` has ended: {}",
            instance.status
        )))
    }
}
