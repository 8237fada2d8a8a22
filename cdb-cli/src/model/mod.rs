//! A container type as plain data, so that the commands are not generic: they are compiled once, and a program
//! with many containers keeps them in one list. [`Model::of`] converts a type once. What needs the type
//! later is kept as a function pointer.

pub(crate) mod foreign_types;
pub(crate) mod messages;
pub(crate) mod unknown_indexes;

use std::pin::Pin;
use std::sync::Arc;

use cdb_client::feed::FeedCursor;
use cdb_client::transport::async_trait;
use cdb_client::write::{Migration, MigrationStep};
use cdb_client::{Bootstrap, DatabaseClient};
use cdb_model::Container;
use cdb_model::container::ContainerDefinition;
use cdb_model::policy::IndexingPolicy;
use cdb_model::query::statement::RawSql;
use cdb_model::query::{Explain, Explanation, QueryForm};
use cdb_model::shape::DocumentShape;
use cdb_provider::coordination::messaging::MessagingConfig;
use cdb_provider::documents::Durable;
use cdb_provider::payload::PayloadCodec;
use cdb_provider::replay::Replay;
use serde_json::Value;

use self::messages::MessageSource;
use crate::exit::Failure;

/// A container type, with the name of one container of this type.
pub(crate) struct Model {
    /// The name of the container.
    pub container: String,
    /// The name of the Rust type.
    pub name: &'static str,
    /// The property that holds the type of a document.
    pub discriminator: &'static str,
    pub documents: &'static [&'static DocumentShape],
    /// The definition that the type declares. That of the live container may differ.
    pub definition: ContainerDefinition,
    pub settings: Settings,
    /// The queries to explain.
    pub queries: Vec<NamedQuery>,
    create: fn(DatabaseClient, String) -> Creating,
    live_definition: fn(DatabaseClient, String) -> Reading,
    messages: OpenMessages,
    migrate: Migrating,
    first_row: fn(DatabaseClient, String, RawSql<Value>) -> Searching,
}

impl Model {
    pub(crate) fn of<C: Container>(container: String) -> Self {
        let forms = QueryForm::of::<C>().into_iter().map(|form| NamedQuery {
            name: form.to_string(),
            explain: Arc::new(move |policy| form.explain(policy)),
        });
        Self {
            container,
            name: C::NAME,
            discriminator: C::DISCRIMINATOR,
            documents: C::DOCUMENTS,
            definition: C::definition(),
            settings: Settings::default(),
            queries: forms.collect(),
            create: |database, name| {
                Box::pin(async move {
                    let created = database
                        .bootstrap::<C>(&name, Bootstrap::CreateIfMissing)
                        .await;
                    Ok(created.map(drop)?)
                })
            },
            messages: messages::open::<C>,
            migrate: |database, name, position| {
                Box::new(
                    database
                        .container::<C>(name)
                        .in_background()
                        .migrate(position),
                )
            },
            first_row: |database, name, statement| {
                Box::pin(async move {
                    database
                        .container::<C>(&name)
                        .query(statement)
                        .first()
                        .await
                })
            },
            live_definition: |database, name| {
                Box::pin(async move { database.definition::<C>(&name).await })
            },
        }
    }

    /// Returns the queries that the policy `actual` serves less well than `expected`, each with its
    /// explanation under `actual`.
    pub(crate) fn degraded_queries(
        &self,
        expected: &IndexingPolicy,
        actual: &IndexingPolicy,
    ) -> Vec<(&NamedQuery, Explanation)> {
        let degraded = self.queries.iter().filter_map(|query| {
            let (expected, actual) = (query.explain(expected), query.explain(actual));
            let scans = actual
                .leftover
                .iter()
                .any(|part| !expected.leftover.contains(part));
            let refused = actual.refused.len() > expected.refused.len();
            let unserved = expected.is_served() && !actual.is_served();
            (scans || refused || unserved).then_some((query, actual))
        });
        degraded.collect()
    }

    /// Creates the container if it is missing.
    pub(crate) async fn create(&self, database: DatabaseClient, name: &str) -> Result<(), Failure> {
        (self.create)(database, name.to_owned()).await
    }

    /// Reads the definition of the live container.
    pub(crate) async fn live_definition(
        &self,
        database: &DatabaseClient,
        name: &str,
    ) -> Result<ContainerDefinition, cdb_client::Error> {
        (self.live_definition)(database.clone(), name.to_owned()).await
    }

    /// Returns the first row of a statement.
    pub(crate) async fn first_row(
        &self,
        database: &DatabaseClient,
        name: &str,
        statement: RawSql<Value>,
    ) -> Result<Option<Value>, cdb_client::Error> {
        (self.first_row)(database.clone(), name.to_owned(), statement).await
    }

    /// Begins a migration of the documents.
    pub(crate) fn migration(
        &self,
        database: &DatabaseClient,
        name: &str,
        position: Option<FeedCursor>,
    ) -> Box<dyn MigrationSteps> {
        (self.migrate)(database, name, position)
    }

    /// Opens the failed messages of outboxes and inboxes in the container with the definition `live`.
    /// Returns `None` when the container holds no messages.
    pub(crate) fn messages(
        &self,
        database: &DatabaseClient,
        name: &str,
        live: &ContainerDefinition,
    ) -> Result<Option<Arc<dyn MessageSource>>, Failure> {
        (self.messages)(database, name, live, self.settings.messaging)
    }

    /// Checks that the container holds orchestrations.
    ///
    /// # Errors
    /// When it does not. The error says what to do.
    pub(crate) fn require_orchestrations(&self) -> Result<(), Failure> {
        let name = self.name;
        let key = &self.definition.partition_key.paths;
        if *key != Durable::PARTITION_KEY || self.discriminator != Durable::DISCRIMINATOR {
            return Err(Failure::usage(format!(
                "`{name}` cannot hold orchestrations: its partition key is {} and its types are in `{}`, but orchestrations need {} and `{}`; choose the container of the orchestrations with --container, in the command of its program or `cdb`",
                key.join(", "),
                self.discriminator,
                Durable::PARTITION_KEY.join(", "),
                Durable::DISCRIMINATOR,
            )));
        }
        let all = Durable::DOCUMENTS.iter().all(|required| {
            let mut known = self.documents.iter();
            known.any(|shape| {
                shape.name == required.name && shape.discriminator == required.discriminator
            })
        });
        if all {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "`{name}` holds no orchestrations; add a variant `#[container(extends)] Durable(Durable)` to it to hold both in one container",
        )))
    }
}

/// The settings of a program, which all its containers have.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// The messaging settings.
    pub messaging: MessagingConfig,
    /// The orchestrations of the program.
    pub replay: Option<Arc<Replay>>,
    /// The codec of payloads; by default that of the keys in `COSMOS_PAYLOAD_KEYS`.
    pub payload_codec: Option<Arc<dyn PayloadCodec>>,
}

/// A query with the name to show.
#[derive(Clone)]
pub(crate) struct NamedQuery {
    pub name: String,
    explain: Explained,
}

impl NamedQuery {
    pub(crate) fn new<C: Container>(name: String, query: impl Explain<C> + 'static) -> Self {
        Self {
            name,
            explain: Arc::new(move |policy| query.explain(policy)),
        }
    }

    /// Explains which indexes of a policy serve the query.
    pub(crate) fn explain(&self, policy: &IndexingPolicy) -> Explanation {
        (self.explain)(policy)
    }
}

/// A migration of any container.
#[async_trait]
pub(crate) trait MigrationSteps: Send {
    async fn next_step(&mut self) -> Result<Option<MigrationStep>, cdb_client::Error>;

    fn position(&self) -> &FeedCursor;
}

#[async_trait]
impl<C: Container> MigrationSteps for Migration<C> {
    async fn next_step(&mut self) -> Result<Option<MigrationStep>, cdb_client::Error> {
        Self::next_step(self).await
    }

    fn position(&self) -> &FeedCursor {
        Self::position(self)
    }
}

// The types of the function pointers of `Model`. Their results are boxed, because the futures and migrations
// of two containers have different types.
type Creating = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
type Reading = Pin<Box<dyn Future<Output = Result<ContainerDefinition, cdb_client::Error>> + Send>>;
type Searching = Pin<Box<dyn Future<Output = Result<Option<Value>, cdb_client::Error>> + Send>>;
type Migrating = fn(&DatabaseClient, &str, Option<FeedCursor>) -> Box<dyn MigrationSteps>;
type OpenMessages = fn(
    &DatabaseClient,
    &str,
    &ContainerDefinition,
    MessagingConfig,
) -> Result<Option<Arc<dyn MessageSource>>, Failure>;
type Explained = Arc<dyn Fn(&IndexingPolicy) -> Explanation + Send + Sync>;
