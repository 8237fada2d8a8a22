//! The orchestrations of a container: duroxide's client for changes, the typed container for
//! queries.

use std::sync::Arc;

use cdb_client::{ContainerClient, DatabaseClient};
use cdb_model::{Container as _, Query};
use cdb_provider::documents::{
    Durable, Instance, InstanceKey, NEVER, OrchestratorItem, SCHEMA_PARTITION, SchemaKey, Text,
};
use cdb_provider::payload::PayloadCodec;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::Client;
use duroxide::providers::Provider;

use super::begin_pauses;
use super::work_item::{Start, describe};
use crate::connection::Connection;
use crate::exit::Failure;
use crate::model::{Model, foreign_types};
use crate::output::counted;

/// The most document types of a container of another kind that are named.
const MAX_NAMED: usize = 3;

/// The clients that commands about orchestrations use.
#[derive(Clone)]
pub(crate) struct Orchestrations {
    pub container: ContainerClient<Durable>,
    pub provider: CosmosDBProvider,
    pub client: Arc<Client>,
}

impl Orchestrations {
    /// Opens the container after a check of its schema version. Writes nothing.
    ///
    /// # Errors
    /// Fails when the container holds no orchestrations, has a newer schema than this command, or cannot
    /// be read.
    pub(crate) async fn open(connection: &Connection, model: &Model) -> Result<Self, Failure> {
        model.holds_orchestrations()?;
        let database = connection.database()?;
        let container = database.container::<Durable>(&connection.container);
        let config = CosmosDBProviderConfig {
            payload_codec: payload_codec(connection, model)?,
            ..CosmosDBProviderConfig::default()
        };
        let schema = container.read(&SchemaKey::new(SCHEMA_PARTITION)).await;
        let schema = schema.map_err(|error| {
            let is_missing = error.is_not_found();
            let failure = Failure::from(error);
            if !is_missing {
                return failure;
            }
            let message = format!(
                "container `{}` of database `{}` does not exist",
                connection.container, connection.database
            );
            Failure { message, ..failure }
        })?;
        if schema.is_none() {
            // No runtime has opened the container: it is new, or of another kind.
            refuse_another_kind(&database, &connection.container, model).await?;
        }
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

    /// Reads an instance.
    ///
    /// # Errors
    /// Fails with a finding when the instance does not exist.
    pub(crate) async fn instance(&self, id: &str) -> Result<Instance, Failure> {
        let found = self.container.read(&InstanceKey::new(id)).await?;
        let found = found.map(|stored| stored.document);
        match found {
            Some(instance) if instance.is_created() => Ok(self.readable(instance)),
            pending => Err(self.missing(id, pending.as_ref()).await),
        }
    }

    /// Decodes the payloads of an instance document, as far as the keys are known.
    pub(crate) fn readable(&self, mut instance: Instance) -> Instance {
        let decode = |payload| self.provider.decode(payload);
        instance.custom_status = instance.custom_status.map(decode);
        if let Some(held) = &mut instance.held {
            held.reason = decode(std::mem::take(&mut held.reason));
        }
        instance.output = instance.output.map(|output| match output {
            Text::Inline(text) => Text::Inline(decode(text)),
            other => other,
        });
        instance
    }

    /// Describes a queued message from its stored text.
    pub(crate) fn describe(&self, stored: &str) -> String {
        describe(stored, |message| self.provider.decode_message(message))
    }

    /// Whether the instance exists or its start is queued.
    pub(crate) async fn is_known(&self, id: &str) -> Result<bool, Failure> {
        // First the queue: the batch that creates the instance deletes the message.
        if !self.queued(id).await?.is_empty() {
            return Ok(true);
        }
        let found = self.container.read(&InstanceKey::new(id)).await?;
        Ok(found.is_some_and(|instance| instance.is_created()))
    }

    /// Reads the messages for an instance that are not consumed.
    pub(crate) async fn queued(&self, id: &str) -> Result<Vec<OrchestratorItem>, Failure> {
        let messages = Query::<OrchestratorItem>::in_partition(id);
        let messages = self.container.query(messages).all().await?;
        let messages = messages.into_iter().map(|stored| stored.document);
        Ok(messages
            .filter(|message| message.visible_at < NEVER)
            .collect())
    }

    /// Returns the finding for an instance that does not exist, or that is still a message in a
    /// queue; the failure of the query if the queue cannot be read.
    async fn missing(&self, id: &str, pending: Option<&Instance>) -> Failure {
        let queued = match self.queued(id).await {
            Ok(queued) => queued,
            Err(failure) => return failure,
        };
        let Some(first) = queued.first() else {
            return Failure::finding(format!("instance `{id}` does not exist"));
        };
        let attempts = pending.and_then(|instance| instance.attempts.values().copied().max());
        let is_held = pending.is_some_and(|instance| instance.held.is_some());
        let wanted = || {
            let required_type =
                Start::of(first.work_item.header()).map(|start| start.required_type());
            required_type.unwrap_or_else(|| "the orchestration".to_owned())
        };
        let paused = pending.and_then(|instance| instance.paused.as_ref());
        let state = match (paused, attempts) {
            (Some(paused), _) => format!("it is paused by {}", paused.by),
            _ if is_held => format!("it waits for a runtime that knows {}", wanted()),
            (None, None | Some(0)) => match begin_pauses::read(&self.provider, &self.container)
                .await
            {
                Err(failure) => return failure,
                Ok(limits) if limits.is_empty() => {
                    "no runtime has fetched the message; check that a runtime is running".to_owned()
                }
                Ok(limits) => format!(
                    "no runtime has fetched the message: {}",
                    begin_pauses::described(&limits)
                ),
            },
            (None, Some(attempts)) => format!(
                "the message was fetched {} and abandoned; it waits for a runtime that knows {}",
                counted(u64::from(attempts), "time"),
                wanted()
            ),
        };
        Failure::finding(format!(
            "instance `{id}` does not exist yet: {} is queued, and {state}",
            self.describe(first.work_item.header())
        ))
    }

    /// Reads an instance that has not ended.
    ///
    /// # Errors
    /// Fails with a finding when the instance does not exist or has ended.
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

/// Checks that the partition key of a container is that of orchestrations.
///
/// # Errors
/// When it is another one, with what the container holds; when the container cannot be read.
async fn refuse_another_kind(
    database: &DatabaseClient,
    name: &str,
    model: &Model,
) -> Result<(), Failure> {
    let key = model.live(database, name).await?.partition_key.paths;
    if key == Durable::PARTITION_KEY {
        return Ok(());
    }
    let types = foreign_types::names(database, name, model, MAX_NAMED).await?;
    let holds = match &*types {
        [] => String::new(),
        types => format!("; it holds documents of the types {}", types.join(", ")),
    };
    Err(Failure::usage(format!(
        "container `{name}` holds no orchestrations: its partition key is {}, theirs is {}{holds}; choose the container of the orchestrations with \
         --container",
        key.join(", "),
        Durable::PARTITION_KEY.join(", "),
    )))
}

/// Returns the codec of the program, or of the keys that the options name; `None` without either.
pub(crate) fn payload_codec(
    connection: &Connection,
    model: &Model,
) -> Result<Option<Arc<dyn PayloadCodec>>, Failure> {
    match &model.settings.payload_codec {
        Some(codec) => Ok(Some(codec.clone())),
        None => connection.payload_codec(),
    }
}
