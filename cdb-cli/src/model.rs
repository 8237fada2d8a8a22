//! A container type as plain data: what the commands need of it, so that none of them is generic.

use std::pin::Pin;
use std::sync::Arc;

use cdb_client::{Bootstrap, DatabaseClient};
use cdb_model::{
    Container, ContainerDefinition, DocumentShape, Explanation, IndexingPolicy, Query, QueryForm,
    Queryable,
};
use cdb_provider::coordination::MessagingConfig;
use cdb_provider::documents::Durable;

use crate::exit::Failure;
use crate::message_dead_letters::{self, MessageDeadLetters};

/// What a function that is generic over the container does, behind a pointer that is not.
type Creating = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
type Reading = Pin<Box<dyn Future<Output = Result<ContainerDefinition, cdb_client::Error>> + Send>>;
type OpenMessages = fn(
    &DatabaseClient,
    &str,
    &ContainerDefinition,
    MessagingConfig,
) -> Result<Option<Arc<dyn MessageDeadLetters>>, Failure>;
type Explain = Box<dyn Fn(&IndexingPolicy, &str) -> Explanation + Send + Sync>;

/// A container type.
pub(crate) struct Model {
    pub name: &'static str,
    pub discriminator: &'static str,
    pub documents: &'static [&'static DocumentShape],
    pub definition: ContainerDefinition,
    /// The messaging settings of the container.
    pub messaging: MessagingConfig,
    queries: Vec<NamedQuery>,
    create: fn(DatabaseClient, String) -> Creating,
    live: fn(DatabaseClient, String) -> Reading,
    messages: OpenMessages,
}

/// Something that is asked of the container.
pub(crate) struct NamedQuery {
    /// In words.
    pub name: String,
    explain: Explain,
}

impl Model {
    pub(crate) fn of<C: Container>() -> Self {
        let forms = QueryForm::of::<C>().into_iter().map(|form| NamedQuery {
            name: form.to_string(),
            explain: Box::new(move |policy, discriminator| form.explain(policy, discriminator)),
        });
        Self {
            name: C::NAME,
            discriminator: C::DISCRIMINATOR,
            documents: C::DOCUMENTS,
            definition: C::definition(),
            messaging: MessagingConfig::default(),
            queries: forms.collect(),
            create: |database, name| {
                Box::pin(async move {
                    let created = database
                        .bootstrap::<C>(&name, Bootstrap::CreateIfMissing)
                        .await;
                    Ok(created.map(drop)?)
                })
            },
            messages: message_dead_letters::open::<C>,
            live: |database, name| Box::pin(async move { database.definition::<C>(&name).await }),
        }
    }

    /// Adds a query of the program's own.
    pub(crate) fn add_query<T: Queryable>(&mut self, name: String, query: Query<T>) {
        self.queries.push(NamedQuery {
            name,
            explain: Box::new(move |policy, discriminator| query.explain(policy, discriminator)),
        });
    }

    pub(crate) fn queries(&self) -> &[NamedQuery] {
        &self.queries
    }

    /// What serves a query under a policy.
    pub(crate) fn explain(&self, query: &NamedQuery, policy: &IndexingPolicy) -> Explanation {
        (query.explain)(policy, self.discriminator)
    }

    /// The queries that `live` serves less well than the model's policy, each with what becomes of it.
    pub(crate) fn degraded_queries(
        &self,
        live: &IndexingPolicy,
    ) -> Vec<(&NamedQuery, Explanation)> {
        let wanted = &self.definition.indexing_policy;
        let pairs = self.queries.iter().map(|query| {
            let (model, live) = (self.explain(query, wanted), self.explain(query, live));
            (query, model, live)
        });
        let suffers = |(_, model, live): &(&NamedQuery, Explanation, Explanation)| {
            let left = live
                .leftover
                .iter()
                .any(|part| !model.leftover.contains(part));
            let refused = live.refused.len() > model.refused.len();
            left || refused || (model.is_served() && !live.is_served())
        };
        let hit = pairs.filter(suffers);
        hit.map(|(query, _, live)| (query, live)).collect()
    }

    /// Creates the container, if it is not there.
    pub(crate) async fn create(&self, database: DatabaseClient, name: &str) -> Result<(), Failure> {
        (self.create)(database, name.to_owned()).await
    }

    /// The definition of the live container.
    pub(crate) async fn live(
        &self,
        database: &DatabaseClient,
        name: &str,
    ) -> Result<ContainerDefinition, cdb_client::Error> {
        (self.live)(database.clone(), name.to_owned()).await
    }

    /// The dead letters of the outboxes and inboxes in the live container with the definition `live`.
    pub(crate) fn message_dead_letters(
        &self,
        database: &DatabaseClient,
        name: &str,
        live: &ContainerDefinition,
    ) -> Result<Option<Arc<dyn MessageDeadLetters>>, Failure> {
        (self.messages)(database, name, live, self.messaging)
    }

    /// Whether orchestrations are kept in the container.
    ///
    /// # Errors
    /// Says how they could be, when they are not.
    pub(crate) fn holds_orchestrations(&self) -> Result<(), Failure> {
        let all = Durable::DOCUMENTS.iter().all(|wanted| {
            let mut known = self.documents.iter();
            known.any(|shape| {
                shape.name == wanted.name && shape.discriminator == wanted.discriminator
            })
        });
        if all && self.discriminator == Durable::DISCRIMINATOR {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "`{}` holds no orchestrations; add a variant `#[container(extends)] Durable(Durable)` to it to keep both in one container",
            self.name
        )))
    }
}
