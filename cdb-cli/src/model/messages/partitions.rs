//! The messages between partitions: their delivery is retried by outboxes, their handling by inboxes.

use async_trait::async_trait;
use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, Page};
use cdb_model::Container;
use cdb_model::container::MemberOf;
use cdb_provider::coordination::message::Side;
use cdb_provider::coordination::messaging::{
    DeadLetter, MessagingConfig, Retrying, RetryingMessage,
};
use cdb_provider::coordination::outbox::OutboxError;
use cdb_provider::coordination::{DeadLetters, MessageDocument};

use super::kind::{Action, List, Outcome, Source, State, Step};
use super::name::MessageName;
use super::row::{MessageDetail, MessageRow};
use super::source::MessageSource;
use crate::exit::Failure;

pub(crate) struct PartitionMessages<C> {
    dead: DeadLetters<C>,
    retrying: Retrying<C>,
}

impl<C: Container> PartitionMessages<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    pub(crate) fn new(container: ContainerClient<C>, config: MessagingConfig) -> Self {
        Self {
            dead: DeadLetters::new(container.clone(), config),
            retrying: Retrying::new(container),
        }
    }
}

#[async_trait]
impl<C: Container> MessageSource for PartitionMessages<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    fn source(&self) -> Source {
        Source::Partitions
    }

    fn steps(&self) -> &'static [Step] {
        &[Step::Delivery, Step::Handling]
    }

    async fn page(
        &self,
        list: List,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<MessageRow>, Failure> {
        let (rows, next) = match list {
            List::Dead => {
                let page = self.dead.page(rows, from).await?;
                (page.rows.iter().map(dead_row).collect(), page.next)
            }
            List::Retrying(step) => {
                let page = self.retrying.page(side(step), rows, from).await?;
                (page.rows.iter().map(retrying_row).collect(), page.next)
            }
        };
        Ok(Page { rows, next })
    }

    async fn count(&self, list: List) -> Result<u64, Failure> {
        Ok(match list {
            List::Dead => self.dead.count().await?,
            List::Retrying(step) => self.retrying.count(side(step)).await?,
        })
    }

    async fn find(&self, name: &MessageName) -> Result<Option<MessageDetail>, Failure> {
        let MessageName::Partition { partition, name } = name else {
            return Ok(None);
        };
        if let Some(letter) = self.dead.get(partition, name).await? {
            return Ok(Some(MessageDetail {
                row: dead_row(&letter),
                contents: vec![letter.payload],
                history: letter.history,
            }));
        }
        let found = self.retrying.get(partition, name).await?;
        Ok(found.map(|message| MessageDetail {
            row: retrying_row(&message),
            contents: vec![message.payload],
            history: message.history,
        }))
    }

    async fn apply(&self, name: &MessageName, action: Action) -> Result<Outcome, Failure> {
        let MessageName::Partition { partition, name } = name else {
            return Ok(Outcome::Gone);
        };
        let Some(letter) = self.dead.get(partition, name).await? else {
            return Ok(Outcome::Gone);
        };
        let applied = match action {
            Action::Redrive => self.dead.redrive(&letter).await,
            Action::Discard => self.dead.discard(&letter).await,
        };
        match applied {
            Ok(()) => Ok(Outcome::Done),
            Err(OutboxError::Gone) => Ok(Outcome::Gone),
            Err(OutboxError::Failed(error)) => Err(error.into()),
            Err(error) => Err(Failure::service(error.to_string())),
        }
    }
}

fn side(step: Step) -> Side {
    match step {
        Step::Delivery => Side::Outbox,
        Step::Handling => Side::Inbox,
    }
}

fn step(side: Side) -> Step {
    match side {
        Side::Outbox => Step::Delivery,
        Side::Inbox => Step::Handling,
    }
}

fn dead_row(letter: &DeadLetter) -> MessageRow {
    let name = MessageName::Partition {
        partition: letter.partition.clone(),
        name: letter.name.clone(),
    };
    MessageRow {
        from: Some(letter.from.to_string()),
        to: letter.to.to_string(),
        what: letter.message_type.clone(),
        attempts: letter.attempts,
        reason: letter.reason.clone(),
        sent_at: Some(letter.sent_at),
        failed_at: letter.history.last().map(|attempt| attempt.at),
        dead_since: Some(letter.dead_lettered_at),
        ..MessageRow::new(name, State::Dead, step(letter.side))
    }
}

fn retrying_row(message: &RetryingMessage) -> MessageRow {
    let name = MessageName::Partition {
        partition: message.partition.clone(),
        name: message.name.clone(),
    };
    MessageRow {
        from: Some(message.from.to_string()),
        to: message.to.to_string(),
        what: message.message_type.clone(),
        attempts: message.attempts,
        reason: message.last_error.reason.clone(),
        sent_at: Some(message.sent_at),
        failed_at: Some(message.last_error.at),
        next_attempt_at: Some(message.next_attempt),
        blocks_stream: message.blocks_stream(),
        ..MessageRow::new(name, State::Retrying, step(message.side))
    }
}
