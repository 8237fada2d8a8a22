//! The messages between partitions that failed, also for a container type without a variant for
//! messages.
//!
//! `MessageDocument<C>` uses only the partition key paths and the discriminator of its container.
//! So the command reads through [`MessagesOf`], a container type with messages alone. The built-in
//! `cdb` finds the messages of every container that has the provider's partition key.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use cdb_client::query::Continuation;
use cdb_client::{DatabaseClient, Error, Page};
use cdb_model::container::{ContainerDefinition, DefaultTtl, MemberOf};
use cdb_model::document::DecodeError;
use cdb_model::policy::IndexingPolicy;
use cdb_model::shape::DocumentShape;
use cdb_model::stored::decode;
use cdb_model::{Container, Document, PartitionKey};
use cdb_provider::coordination::message::Side;
use cdb_provider::coordination::messaging::{
    DeadLetter, MessagingConfig, Retrying, RetryingMessage,
};
use cdb_provider::coordination::outbox::OutboxError;
use cdb_provider::coordination::{DeadLetters, MessageDocument};

use crate::exit::Failure;

/// The messages of a container with the partition key and the discriminator of `C`.
struct MessagesOf<C>(PhantomData<fn() -> C>);

impl<C: Container> Container for MessagesOf<C> {
    const NAME: &'static str = C::NAME;
    const DISCRIMINATOR: &'static str = C::DISCRIMINATOR;
    const PARTITION_KEY: &'static [&'static str] = C::PARTITION_KEY;
    const DOCUMENTS: &'static [&'static DocumentShape] =
        &[<MessageDocument<Self> as Document>::SHAPE];
    const DEFAULT_TTL: DefaultTtl = C::DEFAULT_TTL;

    fn decode(discriminator: &str, json: &str) -> Result<Self, DecodeError> {
        if discriminator != <MessageDocument<Self> as Document>::SHAPE.discriminator {
            return Err(DecodeError::UnknownType {
                container: C::NAME,
                discriminator: discriminator.to_owned(),
            });
        }
        decode::<Self, MessageDocument<Self>>(json).map(|_| Self(PhantomData))
    }

    fn shape(&self) -> &'static DocumentShape {
        <MessageDocument<Self> as Document>::SHAPE
    }
}

impl<C: Container> MemberOf<MessagesOf<C>> for MessageDocument<MessagesOf<C>> {}

/// The result of redriving or discarding a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Another process has redriven or discarded it.
    Gone,
}

/// The failed messages between partitions, without the container type.
#[async_trait]
pub(crate) trait Messages: Send + Sync {
    async fn dead_letters(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<DeadLetter>, Error>;
    async fn count_dead_letters(&self) -> Result<u64, Error>;
    async fn get(&self, partition: &PartitionKey, name: &str) -> Result<Option<DeadLetter>, Error>;
    async fn redrive(&self, letter: &DeadLetter) -> Result<Outcome, Failure>;
    async fn discard(&self, letter: &DeadLetter) -> Result<Outcome, Failure>;
    async fn retrying(
        &self,
        side: Side,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<RetryingMessage>, Error>;
    async fn count_retrying(&self, side: Side) -> Result<u64, Error>;
}

/// The failed messages of a container.
struct Failed<C> {
    letters: DeadLetters<C>,
    retrying: Retrying<C>,
}

#[async_trait]
impl<C: Container> Messages for Failed<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    async fn dead_letters(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<DeadLetter>, Error> {
        self.letters.page(rows, from).await
    }

    async fn count_dead_letters(&self) -> Result<u64, Error> {
        self.letters.count().await
    }

    async fn get(&self, partition: &PartitionKey, name: &str) -> Result<Option<DeadLetter>, Error> {
        self.letters.get(partition, name).await
    }

    async fn redrive(&self, letter: &DeadLetter) -> Result<Outcome, Failure> {
        outcome(self.letters.redrive(letter).await)
    }

    async fn discard(&self, letter: &DeadLetter) -> Result<Outcome, Failure> {
        outcome(self.letters.discard(letter).await)
    }

    async fn retrying(
        &self,
        side: Side,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<RetryingMessage>, Error> {
        self.retrying.page(side, rows, from).await
    }

    async fn count_retrying(&self, side: Side) -> Result<u64, Error> {
        self.retrying.count(side).await
    }
}

fn outcome(result: Result<(), OutboxError>) -> Result<Outcome, Failure> {
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(OutboxError::Gone) => Ok(Outcome::Gone),
        Err(OutboxError::Failed(error)) => Err(error.into()),
        Err(error) => Err(Failure::service(error.to_string())),
    }
}

/// Opens the failed messages of the live container `name`. Returns `None` when the container lacks the
/// indexes that outboxes and inboxes need.
///
/// # Errors
/// When the container has these indexes, but its partition key differs from that of `C`.
pub(crate) fn open<C: Container>(
    database: &DatabaseClient,
    name: &str,
    live: &ContainerDefinition,
    config: MessagingConfig,
) -> Result<Option<Arc<dyn Messages>>, Failure> {
    let lacking = IndexingPolicy::of::<MessagesOf<C>>().lacking_in(&live.indexing_policy);
    if !lacking.composite_indexes.is_empty() {
        return Ok(None);
    }
    if live.partition_key.paths != C::PARTITION_KEY {
        return Err(Failure::usage(format!(
            "container `{name}` is partitioned by {}, `{}` by {}; use a command for that container, `cdb_cli::run::<YourContainer>(name)`",
            live.partition_key.paths.join(", "),
            C::NAME,
            C::PARTITION_KEY.join(", "),
        )));
    }
    let container = database.container::<MessagesOf<C>>(name);
    Ok(Some(Arc::new(Failed {
        letters: DeadLetters::new(container.clone(), config),
        retrying: Retrying::new(container),
    })))
}
