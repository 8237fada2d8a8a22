//! The dead letters of a container, from both sources: messages between instances, which the
//! provider's outbox stores with their senders, and messages between partitions.
//!
//! Both sources check the version of a dead letter that was read, so that of concurrent redrives
//! and discards one succeeds.

use std::sync::Arc;

use async_trait::async_trait;
use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, Page};
use cdb_model::{Query, Stored, Timestamp};
use cdb_provider::coordination::messaging::DeadLetter;
use cdb_provider::documents::{Durable, NEVER, OutboxIntent};

use super::Holdings;
use super::Orchestrations;
use super::dead_letter_id::DeadLetterId;
use super::paging::TwoLists;
use crate::connection::Connection;
use crate::exit::Failure;
use crate::model::Model;
use crate::model::messages::{Messages, Outcome};

/// The dead letters of a container.
#[derive(Clone)]
pub(crate) struct DeadLetterSources {
    /// The source of the service's time, whatever documents the container holds.
    container: ContainerClient<Durable>,
    orchestrations: Option<Orchestrations>,
    messages: Option<Arc<dyn Messages>>,
}

/// A dead letter of one of the sources.
#[derive(Clone, Debug)]
pub(crate) enum FoundDeadLetter {
    /// The messages of one turn of an instance to another instance.
    Intent(Stored<OutboxIntent>),
    /// A message between partitions.
    Message(DeadLetter),
}

/// A change of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Redrive,
    Discard,
}

impl FoundDeadLetter {
    pub(crate) fn name(&self) -> DeadLetterId {
        match self {
            Self::Intent(stored) => DeadLetterId::Intent {
                instance: stored.document.instance_id.clone(),
                key: stored.document.idempotency_key.clone(),
            },
            Self::Message(letter) => DeadLetterId::Message {
                partition: letter.partition.clone(),
                name: letter.name.clone(),
            },
        }
    }
}

/// Queries the outbox intents of instances that are dead letters.
fn dead_intents() -> Query<OutboxIntent> {
    Query::across_partitions().filter(OutboxIntent::CREATED_AT.ge(NEVER))
}

impl DeadLetterSources {
    /// Opens the sources of a container.
    pub(crate) async fn open(connection: &Connection, model: &Model) -> Result<Self, Failure> {
        Self::of(&Holdings::open(connection, model).await?)
    }

    /// Returns the sources of a container.
    ///
    /// # Errors
    /// When the container holds neither orchestrations nor messages.
    pub(crate) fn of(holdings: &Holdings) -> Result<Self, Failure> {
        if holdings.orchestrations.is_none() && holdings.messages.is_none() {
            return Err(Failure::usage(format!(
                "`{}` holds neither orchestrations nor messages between partitions, so it has no dead letters",
                holdings.model
            )));
        }
        Ok(Self {
            container: holdings.container.clone(),
            orchestrations: holdings.orchestrations.clone(),
            messages: holdings.messages.clone(),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.container.now()
    }

    pub(crate) async fn count(&self) -> Result<u64, Failure> {
        let intents = match &self.orchestrations {
            Some(orchestrations) => {
                let count = orchestrations.container.query(dead_intents().count());
                count.first().await?
            }
            None => None,
        };
        let messages = match &self.messages {
            Some(messages) => messages.count_dead_letters().await?,
            None => 0,
        };
        Ok(intents.unwrap_or_default() + messages)
    }

    /// Reads a dead letter. Returns `None` when it does not exist.
    pub(crate) async fn find(
        &self,
        name: &DeadLetterId,
    ) -> Result<Option<FoundDeadLetter>, Failure> {
        match (name, &self.orchestrations, &self.messages) {
            (DeadLetterId::Intent { instance, key }, Some(orchestrations), _) => {
                // Documents that `duroxide-cdb` wrote have other ids, so the key selects the
                // intent.
                let query = Query::<OutboxIntent>::in_partition(&**instance)
                    .filter(OutboxIntent::CREATED_AT.ge(NEVER));
                let found = orchestrations.container.query(query).all().await?;
                let mut found = found.into_iter();
                Ok(found
                    .find(|stored| stored.document.idempotency_key == *key)
                    .map(FoundDeadLetter::Intent))
            }
            (DeadLetterId::Message { partition, name }, _, Some(messages)) => Ok(messages
                .get(partition, name)
                .await?
                .map(FoundDeadLetter::Message)),
            _ => Ok(None),
        }
    }

    /// Redrives or discards a dead letter. Returns [`Outcome::Gone`] when another process did so
    /// first.
    pub(crate) async fn apply(
        &self,
        name: &DeadLetterId,
        action: Action,
    ) -> Result<Outcome, Failure> {
        match (
            self.find(name).await?,
            action,
            &self.orchestrations,
            &self.messages,
        ) {
            (Some(FoundDeadLetter::Message(letter)), Action::Redrive, _, Some(messages)) => {
                messages.redrive(&letter).await
            }
            (Some(FoundDeadLetter::Message(letter)), Action::Discard, _, Some(messages)) => {
                messages.discard(&letter).await
            }
            (Some(FoundDeadLetter::Intent(stored)), _, Some(orchestrations), _) => {
                let provider = &orchestrations.provider;
                let outcome = match action {
                    Action::Redrive => provider.deliver_again(&stored).await,
                    Action::Discard => provider.discard(&stored).await,
                };
                match outcome {
                    Err(_) if self.find(name).await?.is_none() => Ok(Outcome::Gone),
                    outcome => Ok(outcome.map(|()| Outcome::Done)?),
                }
            }
            _ => Ok(Outcome::Gone),
        }
    }
}

#[async_trait]
impl TwoLists for DeadLetterSources {
    type Row = FoundDeadLetter;

    async fn first(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<FoundDeadLetter>, Failure> {
        let Some(orchestrations) = &self.orchestrations else {
            return Ok(Page {
                rows: Vec::new(),
                next: None,
            });
        };
        let query = dead_intents().order_by(OutboxIntent::BY_CREATED);
        let page = orchestrations
            .container
            .query(query)
            .page(rows, from)
            .await?;
        Ok(Page {
            rows: page.rows.into_iter().map(FoundDeadLetter::Intent).collect(),
            next: page.next,
        })
    }

    async fn second(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<FoundDeadLetter>, Failure> {
        let Some(messages) = &self.messages else {
            return Ok(Page {
                rows: Vec::new(),
                next: None,
            });
        };
        let page = messages.dead_letters(rows, from).await?;
        Ok(Page {
            rows: page
                .rows
                .into_iter()
                .map(FoundDeadLetter::Message)
                .collect(),
            next: page.next,
        })
    }

    fn has_second(&self) -> bool {
        self.messages.is_some()
    }
}
