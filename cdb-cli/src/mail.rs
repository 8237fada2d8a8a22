//! The dead letters of whatever mailboxes are on a container, although the command's container type may not know of mail.
//!
//! `Mail<C>` depends on its container in two things alone: where the partition key stands, and what says which type a document
//! is. So for every container type there is one that holds mail and nothing else, and the command reads through that: the
//! built-in `cdb` finds the mail of any container that is partitioned as the provider's.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use cdb_client::{Continuation, DatabaseClient, Error, Page};
use cdb_model::{
    Container, ContainerDefinition, DecodeError, DefaultTtl, Document, DocumentShape,
    IndexingPolicy, MemberOf, PartitionKey, decode,
};
use cdb_provider::coordination::{DeadLetter, DeadLetters, Mail, MailboxConfig, OutboxError};

use crate::exit::Failure;

/// The mail of a container that is laid out like `C`.
struct MailOf<C>(PhantomData<fn() -> C>);

impl<C: Container> Container for MailOf<C> {
    const NAME: &'static str = C::NAME;
    const DISCRIMINATOR: &'static str = C::DISCRIMINATOR;
    const PARTITION_KEY: &'static [&'static str] = C::PARTITION_KEY;
    const DOCUMENTS: &'static [&'static DocumentShape] = &[<Mail<Self> as Document>::SHAPE];
    const DEFAULT_TTL: DefaultTtl = C::DEFAULT_TTL;

    fn decode(discriminator: &str, json: &str) -> Result<Self, DecodeError> {
        if discriminator != <Mail<Self> as Document>::SHAPE.discriminator {
            return Err(DecodeError::UnknownType {
                container: C::NAME,
                discriminator: discriminator.to_owned(),
            });
        }
        decode::<Self, Mail<Self>>(json).map(|_| Self(PhantomData))
    }

    fn shape(&self) -> &'static DocumentShape {
        <Mail<Self> as Document>::SHAPE
    }
}

impl<C: Container> MemberOf<MailOf<C>> for Mail<MailOf<C>> {}

/// What became of a dead letter that was to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// Somebody else has redriven or discarded it.
    Gone,
}

/// The dead letters of mailboxes.
#[async_trait]
pub(crate) trait Mailroom: Send + Sync {
    async fn page(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<DeadLetter>, Error>;
    async fn count(&self) -> Result<u64, Error>;
    async fn get(&self, partition: &PartitionKey, name: &str) -> Result<Option<DeadLetter>, Error>;
    async fn redrive(&self, letter: &DeadLetter) -> Result<Settled, Failure>;
    async fn discard(&self, letter: &DeadLetter) -> Result<Settled, Failure>;
}

#[async_trait]
impl<C: Container> Mailroom for DeadLetters<C>
where
    Mail<C>: MemberOf<C>,
{
    async fn page(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<DeadLetter>, Error> {
        Self::page(self, rows, from).await
    }

    async fn count(&self) -> Result<u64, Error> {
        Self::count(self).await
    }

    async fn get(&self, partition: &PartitionKey, name: &str) -> Result<Option<DeadLetter>, Error> {
        Self::get(self, partition, name).await
    }

    async fn redrive(&self, letter: &DeadLetter) -> Result<Settled, Failure> {
        settled(Self::redrive(self, letter).await)
    }

    async fn discard(&self, letter: &DeadLetter) -> Result<Settled, Failure> {
        settled(Self::discard(self, letter).await)
    }
}

fn settled(result: Result<(), OutboxError>) -> Result<Settled, Failure> {
    match result {
        Ok(()) => Ok(Settled::Done),
        Err(OutboxError::Gone) => Ok(Settled::Gone),
        Err(OutboxError::Failed(error)) => Err(error.into()),
        Err(error) => Err(Failure::service(error.to_string())),
    }
}

/// The mail in the live container `name`, or `None` when its indexes say that no mailbox uses it: without them none could.
///
/// # Errors
/// When there is mail, but its partitions are not laid out like `C`'s.
pub(crate) fn open<C: Container>(
    database: &DatabaseClient,
    name: &str,
    live: &ContainerDefinition,
    config: MailboxConfig,
) -> Result<Option<Arc<dyn Mailroom>>, Failure> {
    let lacking = IndexingPolicy::of::<MailOf<C>>().lacking_in(&live.indexing_policy);
    if !lacking.composite_indexes.is_empty() {
        return Ok(None);
    }
    if live.partition_key.paths != C::PARTITION_KEY {
        return Err(Failure::usage(format!(
            "container `{name}` is partitioned by {}, `{}` by {}: use a command of the container's own, `cdb_cli::run::<YourContainer>()`",
            live.partition_key.paths.join(", "),
            C::NAME,
            C::PARTITION_KEY.join(", "),
        )));
    }
    let letters = DeadLetters::new(database.container::<MailOf<C>>(name), config);
    Ok(Some(Arc::new(letters)))
}
