//! What a container holds: orchestrations, messages between partitions, ordered work, and the
//! positions of change feeds.
//!
//! The definition of the live container tells, because the built-in `cdb` also works on containers
//! of `cdb-work` and of change feeds.

use std::sync::Arc;

use cdb_client::{ContainerClient, CosmosClient};
use cdb_model::container::ContainerDefinition;
use cdb_model::policy::IndexingPolicy;
use cdb_model::{Container, Timestamp};
use cdb_provider::coordination::change_feed::{ChangeFeedState, FeedPart, feed_parts};
use cdb_provider::documents::Durable;
use cdb_work::{Work, WorkAdmin};

use super::Orchestrations;
use super::intents::Intents;
use crate::connection::Connection;
use crate::exit::Failure;
use crate::model::Model;
use crate::model::messages::{FailedMessages, MessageSource, OrderedWork};

/// The clients for what a container holds.
#[derive(Clone)]
pub(crate) struct Holdings {
    /// The source of the service's time, whatever documents the container holds.
    pub container: ContainerClient<Durable>,
    /// The name of the container's type.
    pub model: &'static str,
    pub orchestrations: Option<Orchestrations>,
    pub messages: FailedMessages,
    pub work: Option<WorkAdmin>,
    pub feeds: Option<Feeds>,
}

/// The positions of change feeds, and the client that reads their sources.
#[derive(Clone)]
pub(crate) struct Feeds {
    client: CosmosClient,
    state: ContainerClient<ChangeFeedState>,
}

impl Feeds {
    pub(crate) async fn parts(&self) -> Result<Vec<FeedPart>, Failure> {
        let parts = feed_parts(&self.client, &self.state).await;
        parts.map_err(|error| Failure::service(error.to_string()))
    }
}

impl Holdings {
    /// Opens what the container holds. Writes nothing.
    pub(crate) async fn open(connection: &Connection, model: &Model) -> Result<Self, Failure> {
        let live = model
            .live_definition(&connection.database()?, &connection.container)
            .await?;
        Self::of(connection, model, &live).await
    }

    /// Opens what the container with the definition `live` holds. Writes nothing.
    ///
    /// # Errors
    /// When the container holds messages that this command cannot read, or orchestrations of a newer
    /// schema.
    pub(crate) async fn of(
        connection: &Connection,
        model: &Model,
        live: &ContainerDefinition,
    ) -> Result<Self, Failure> {
        let known = known_model(model, live);
        let model = known.as_ref().unwrap_or(model);
        let (database, name) = (connection.database()?, &connection.container);
        // First, because its error names the remedy for a container of a program.
        let messages = model.messages(&database, name, live)?;
        let orchestrations = match model.require_orchestrations() {
            Ok(()) => Some(Orchestrations::open(connection, model).await?),
            Err(_) => None,
        };
        let feeds = holds::<ChangeFeedState>(live).then(|| database.container(name));
        let client = connection.client()?;
        let work = holds::<Work>(live).then(|| database.container::<Work>(name));
        let intents = orchestrations.clone().map(|found| of(Intents(found)));
        let ordered = work.clone().map(|work| of(OrderedWork::new(work)));
        Ok(Self {
            container: database.container(name),
            model: model.name,
            orchestrations,
            messages: FailedMessages {
                container: database.container(name),
                model: model.name,
                sources: intents.into_iter().chain(messages).chain(ordered).collect(),
            },
            work: work.map(WorkAdmin::new),
            feeds: feeds.map(|state| Feeds { client, state }),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.container.now()
    }

    /// The failure of a command about something that the container does not hold.
    pub(crate) fn lacks(&self, what: &str) -> Failure {
        Failure::lacks(self.model, what)
    }
}

fn of(source: impl MessageSource + 'static) -> Arc<dyn MessageSource> {
    Arc::new(source)
}

/// Returns the type of a container of this project that `model` does not describe; `None` if `model`
/// does, or no type is known.
pub(crate) fn known_model(model: &Model, live: &ContainerDefinition) -> Option<Model> {
    if model.definition.partition_key.paths == live.partition_key.paths {
        return None;
    }
    let name = || model.container.clone();
    if holds::<Work>(live) {
        return Some(Model::of::<Work>(name()));
    }
    holds::<ChangeFeedState>(live).then(|| Model::of::<ChangeFeedState>(name()))
}

/// Whether a container has the partition key and the composite indexes of a type.
fn holds<C: Container>(live: &ContainerDefinition) -> bool {
    let lacking = IndexingPolicy::of::<C>().lacking_in(&live.indexing_policy);
    live.partition_key.paths == C::PARTITION_KEY && lacking.composite_indexes.is_empty()
}
