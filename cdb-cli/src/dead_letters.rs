//! The dead letters of a container, from both sources: messages between instances, which the
//! provider's outbox stores with their senders, and messages between partitions.
//!
//! Both sources check the version of a dead letter that was read, so that of concurrent redrives
//! and discards one succeeds.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cdb_client::{ContainerClient, Continuation};
use cdb_model::{ContainerDefinition, Query, Stored, Timestamp};
use cdb_provider::coordination::DeadLetter;
use cdb_provider::documents::{Durable, NEVER, OutboxIntent};
use serde::{Deserialize, Serialize};

use crate::connection::Connection;
use crate::dead_letter_id::DeadLetterId;
use crate::exit::Failure;
use crate::messages::{Messages, Outcome};
use crate::model::Model;
use crate::orchestrations::Orchestrations;

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

/// The start of a page. Dead letters of instances come before those of messaging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) enum PageStart {
    Intents(Option<Continuation>),
    Messages(Option<Continuation>),
}

/// A page of dead letters, and the start of the next page.
#[derive(Debug)]
pub(crate) struct DeadLetterPage {
    pub letters: Vec<FoundDeadLetter>,
    pub next: Option<PageStart>,
    pub now: Timestamp,
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
    /// Opens the sources. Reads the container's definition, whose indexes show whether the
    /// container holds messages between partitions.
    pub(crate) async fn open(connection: &Connection, model: &Model) -> Result<Self, Failure> {
        let live = model
            .live(&connection.database()?, &connection.container)
            .await?;
        Self::of(connection, model, &live).await
    }

    /// Opens the sources of a container with the definition `live`. Writes nothing.
    ///
    /// # Errors
    /// When the container holds neither orchestrations nor messages, or messages that this command
    /// cannot read.
    pub(crate) async fn of(
        connection: &Connection,
        model: &Model,
        live: &ContainerDefinition,
    ) -> Result<Self, Failure> {
        let database = connection.database()?;
        let messages = model.messages(&database, &connection.container, live)?;
        let orchestrations = match model.holds_orchestrations() {
            Ok(()) => Some(Orchestrations::open(connection, model).await?),
            Err(_) => None,
        };
        if orchestrations.is_none() && messages.is_none() {
            return Err(Failure::usage(format!(
                "`{}` holds neither orchestrations nor messages between partitions, so it has no dead letters",
                model.name
            )));
        }
        Ok(Self {
            container: database.container(&connection.container),
            orchestrations,
            messages,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.container.now()
    }

    pub(crate) async fn page(
        &self,
        rows: usize,
        from: Option<PageStart>,
    ) -> Result<DeadLetterPage, Failure> {
        let mut letters = Vec::new();
        let from = match (
            from.unwrap_or(PageStart::Intents(None)),
            &self.orchestrations,
        ) {
            (PageStart::Messages(from), _) => from,
            (PageStart::Intents(_), None) => None,
            (PageStart::Intents(from), Some(orchestrations)) => {
                let query = dead_intents().order_by(OutboxIntent::BY_CREATED);
                let run = orchestrations.container.query(query);
                let page = run.page(rows, from.as_ref()).await?;
                letters.extend(page.rows.into_iter().map(FoundDeadLetter::Intent));
                if page.next.is_some() {
                    return Ok(DeadLetterPage {
                        letters,
                        next: Some(PageStart::Intents(page.next)),
                        now: self.now(),
                    });
                }
                None
            }
        };
        let left = rows - letters.len();
        let next = match &self.messages {
            None => None,
            Some(_) if left == 0 => Some(PageStart::Messages(from)),
            Some(messages) => {
                let page = messages.page(left, from.as_ref()).await?;
                letters.extend(page.rows.into_iter().map(FoundDeadLetter::Message));
                page.next.map(|next| PageStart::Messages(Some(next)))
            }
        };
        Ok(DeadLetterPage {
            letters,
            next,
            now: self.now(),
        })
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
            Some(messages) => messages.count().await?,
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

impl fmt::Display for PageStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, at) = match self {
            Self::Intents(at) => ("intents", at),
            Self::Messages(at) => ("mail", at),
        };
        match at {
            Some(at) => write!(f, "{word}.{at}"),
            None => f.write_str(word),
        }
    }
}

impl FromStr for PageStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, at) = match text.split_once('.') {
            Some((word, at)) => (word, Some(at)),
            None => (text, None),
        };
        let at = at.map(str::parse).transpose();
        let at = at.map_err(|error: cdb_client::Error| error.to_string())?;
        match word {
            "intents" => Ok(Self::Intents(at)),
            "mail" => Ok(Self::Messages(at)),
            _ => Err(format!(
                "`{text}` is not the start of a page; use `next` of `deadletters list --json`"
            )),
        }
    }
}

impl From<PageStart> for String {
    fn from(start: PageStart) -> Self {
        start.to_string()
    }
}

impl TryFrom<String> for PageStart {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
