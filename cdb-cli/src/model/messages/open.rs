//! Opens the messages between partitions that failed, also for a container type without a variant for
//! messages.
//!
//! `MessageDocument<C>` uses only the partition key paths and the discriminator of its container.
//! So the command reads through [`MessagesOf`], a container type with messages alone. The built-in
//! `cdb` finds the messages of every container that has the provider's partition key.

use std::marker::PhantomData;
use std::sync::Arc;

use cdb_client::DatabaseClient;
use cdb_model::container::{ContainerDefinition, DefaultTtl, MemberOf};
use cdb_model::document::DecodeError;
use cdb_model::policy::IndexingPolicy;
use cdb_model::shape::DocumentShape;
use cdb_model::stored::decode;
use cdb_model::{Container, Document};
use cdb_provider::coordination::MessageDocument;
use cdb_provider::coordination::messaging::MessagingConfig;

use super::partitions::PartitionMessages;
use super::source::MessageSource;
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
) -> Result<Option<Arc<dyn MessageSource>>, Failure> {
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
    Ok(Some(Arc::new(PartitionMessages::new(container, config))))
}
