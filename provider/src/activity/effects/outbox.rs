//! The messages of effects.

use cdb_coordination::outbox::{OutboxError, PreparedBatch};
use cdb_coordination::{MessageDocument, Messaging, OutboxBatch};
use cdb_model::container::{Extends, MemberOf};
use cdb_model::{Batch, Container};
use futures::future::BoxFuture;

use crate::activity::Committed;
use crate::error::{Error, Result};
use crate::stored::documents::Durable;

/// Marks effects that may send messages, see
/// [`CosmosDBProvider::transactional_with`](crate::CosmosDBProvider::transactional_with).
#[derive(Clone, Copy, Debug)]
pub enum WithMessages {}

/// The part of [`Messaging`] that effects use, without its bounds.
pub(crate) trait Outgoing<C: Container>: Send + Sync {
    /// Begins the effects of a body.
    fn begin(&self, instance_id: &str) -> OutboxBatch<C>;

    /// Numbers the messages.
    fn seal<'a>(
        &'a self,
        staged: &'a OutboxBatch<C>,
    ) -> BoxFuture<'a, Result<Box<dyn SealedEffects>>>;
}

/// Effects with numbered messages.
pub(crate) trait SealedEffects: Send + Sync {
    /// Returns the operations as part of the provider's batch.
    fn operations(
        &self,
        instance_id: &str,
    ) -> Result<Batch<Durable>, cdb_model::operation::BatchError>;

    /// Returns whether another commit has used the numbers.
    fn lost_race(&self, operation: usize, error: &cdb_client::Error) -> bool;

    /// Delivers the messages of committed effects.
    fn deliver(self: Box<Self>, effects: &Committed);
}

struct SealedMessages<C: Container>(Messaging<C>, PreparedBatch<C>);

impl<C: Extends<Durable>> Outgoing<C> for Messaging<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    fn begin(&self, instance_id: &str) -> OutboxBatch<C> {
        self.batch(instance_id)
    }

    fn seal<'a>(
        &'a self,
        staged: &'a OutboxBatch<C>,
    ) -> BoxFuture<'a, Result<Box<dyn SealedEffects>>> {
        Box::pin(async move {
            match Messaging::prepare(self, staged).await {
                Ok(sealed) => Ok(Box::new(SealedMessages(self.clone(), sealed)) as _),
                Err(OutboxError::Failed(error)) => Err(error.into()),
                Err(error) => Err(Error::Refused(error.to_string())),
            }
        })
    }
}

impl<C: Extends<Durable>> SealedEffects for SealedMessages<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    fn operations(
        &self,
        instance_id: &str,
    ) -> Result<Batch<Durable>, cdb_model::operation::BatchError> {
        as_part(instance_id, self.1.operations())
    }

    fn lost_race(&self, operation: usize, error: &cdb_client::Error) -> bool {
        self.1.lost_race(operation, error)
    }

    fn deliver(self: Box<Self>, effects: &Committed) {
        let Self(messaging, sealed) = *self;
        messaging.deliver(sealed, |operation| effects.etag(operation));
    }
}

/// Returns the operations as part of the provider's batch.
pub(super) fn as_part<C: Extends<Durable>>(
    instance_id: &str,
    operations: &Batch<C>,
) -> Result<Batch<Durable>, cdb_model::operation::BatchError> {
    let mut part = Batch::new(instance_id);
    part.append(operations)?;
    Ok(part)
}
