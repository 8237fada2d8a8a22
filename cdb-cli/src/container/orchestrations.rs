//! The orchestrations of a container: duroxide's client for changes, the typed container for
//! queries.

use std::sync::Arc;

use cdb_client::{ContainerClient, DatabaseClient};
use cdb_model::Container as _;
use cdb_provider::documents::Durable;
use cdb_provider::observe::{ObservedInstance, Presence, QueuedInstance, Unstarted};
use cdb_provider::payload::PayloadCodec;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::Client;
use duroxide::providers::Provider;

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
        model.require_orchestrations()?;
        let database = connection.database()?;
        let container = database.container::<Durable>(&connection.container);
        let config = CosmosDBProviderConfig {
            payload_codec: payload_codec(connection, model)?,
            ..CosmosDBProviderConfig::default()
        };
        let schema = CosmosDBProvider::schema(&container).await;
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
        let provider = CosmosDBProvider::for_tools(container.clone(), &config, schema.as_ref())
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
    pub(crate) async fn instance(&self, id: &str) -> Result<ObservedInstance, Failure> {
        match self.provider.observe().instance(id).await? {
            Some(instance) => Ok(instance),
            None => self.present(id).await?.ok_or_else(|| missing(id)),
        }
    }

    /// Returns an answer about an instance.
    ///
    /// # Errors
    /// Fails with a finding when there is none, because the instance does not exist.
    pub(crate) async fn existing<T>(&self, id: &str, found: Option<T>) -> Result<T, Failure> {
        match found {
            Some(found) => Ok(found),
            None => Err(match self.present(id).await {
                Ok(_) => missing(id),
                Err(failure) => failure,
            }),
        }
    }

    /// Reads an instance. Returns `None` when neither it nor a message for it exists.
    ///
    /// # Errors
    /// Fails with a finding when the instance is still a message in a queue.
    async fn present(&self, id: &str) -> Result<Option<ObservedInstance>, Failure> {
        match self.provider.observe().presence(id).await? {
            Presence::Begun(instance) => Ok(Some(*instance)),
            Presence::Queued(queued) => Err(not_begun(id, &queued)),
            _ => Ok(None),
        }
    }

    /// Reads an instance that exists, or whose start is queued.
    ///
    /// # Errors
    /// Fails with a finding when there is neither.
    pub(crate) async fn begun_or_queued(&self, id: &str) -> Result<ObservedInstance, Failure> {
        match self.provider.observe().presence(id).await? {
            Presence::Begun(instance) => Ok(*instance),
            Presence::Queued(queued) => match queued.instance {
                Some(instance) => Ok(instance),
                None => Err(not_begun(id, &queued)),
            },
            _ => Err(missing(id)),
        }
    }

    /// Whether the instance exists or its start is queued.
    pub(crate) async fn is_known(&self, id: &str) -> Result<bool, Failure> {
        let presence = self.provider.observe().presence(id).await?;
        Ok(!matches!(presence, Presence::Missing))
    }

    /// Reads an instance that has not ended.
    ///
    /// # Errors
    /// Fails with a finding when the instance does not exist or has ended.
    pub(crate) async fn running(&self, id: &str) -> Result<ObservedInstance, Failure> {
        unended(id, self.instance(id).await?)
    }

    /// Reads an instance that has not ended, or whose start is queued.
    ///
    /// # Errors
    /// Fails with a finding when there is neither.
    pub(crate) async fn running_or_queued(&self, id: &str) -> Result<ObservedInstance, Failure> {
        unended(id, self.begun_or_queued(id).await?)
    }
}

fn unended(id: &str, instance: ObservedInstance) -> Result<ObservedInstance, Failure> {
    if instance.status.has_more() {
        return Ok(instance);
    }
    Err(Failure::finding(format!(
        "instance `{id}` has ended: {}",
        instance.status
    )))
}

fn missing(id: &str) -> Failure {
    Failure::finding(format!("instance `{id}` does not exist"))
}

/// Returns the finding for an instance that is still a message in a queue.
fn not_begun(id: &str, queued: &QueuedInstance) -> Failure {
    let wanted = || {
        let start = queued.start.as_ref();
        start.map_or_else(|| "the orchestration".to_owned(), Unstarted::required_type)
    };
    let state = match (&queued.paused, queued.attempts, &*queued.limits) {
        (Some(paused), ..) => format!("it is paused by {}", paused.by),
        _ if queued.is_held => format!("it waits for a runtime that knows {}", wanted()),
        (None, 0, []) => {
            "no runtime has fetched the message; check that a runtime is running".to_owned()
        }
        (None, 0, limits) => format!(
            "no runtime has fetched the message: {}",
            limits_of_starts(limits)
        ),
        (None, attempts, _) => format!(
            "the message was fetched {} and abandoned; it waits for a runtime that knows {}",
            counted(u64::from(attempts), "time"),
            wanted()
        ),
    };
    Failure::finding(format!(
        "instance `{id}` does not exist yet: {} is queued, and {state}",
        queued.message
    ))
}

/// Says that limits may keep instances from beginning: `` `tenant=acme` has --running 0, which … ``.
pub(crate) fn limits_of_starts(limits: &[String]) -> String {
    let have = if limits.len() == 1 { "has" } else { "have" };
    format!(
        "`{}` {have} --running 0, which keeps instances with the label from beginning (only the program knows the labels of an instance)",
        limits.join("`, `")
    )
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
    let key = model
        .live_definition(database, name)
        .await?
        .partition_key
        .paths;
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
