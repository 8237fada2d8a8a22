//! Why a change was not committed with its messages.

use cdb_client::Error;
use cdb_model::BatchError;

/// Why a batch was not committed.
///
/// ```
/// use cdb_coordination::{Messaging, OutboxError};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Placed, order};
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(7)).await?;
/// let messaging = Messaging::builder(shop).start();
/// let mut batch = messaging.batch("ann");
/// batch.changes().create(&order(7))?;
/// batch.send("warehouse", &Placed { number: 7 })?;
/// let refused = messaging.commit(batch).await; // nothing is sent either
/// assert!(matches!(refused, Err(OutboxError::Failed(error)) if error.is_conflict()));
/// # messaging.stop().await; Ok(()) }).unwrap();
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// Change and messages together do not fit into one batch. Nothing was written.
    #[error("the change and its messages do not fit into one batch: {0}")]
    Unfit(#[from] BatchError),
    /// The service refused an operation of the change, or could not be reached.
    /// [`is_ambiguous`](Error::is_ambiguous) when it may have been committed; with a message in it, that was looked
    /// up already.
    #[error(transparent)]
    Failed(#[from] Error),
    /// Others kept sending to the same partitions at the same time. Nothing was written; try again.
    #[error("others kept sending to the same partitions; commit the batch again")]
    Contended,
    /// The dead letter is no longer there: somebody has redriven or discarded it.
    #[error("the dead letter is gone; somebody has redriven or discarded it")]
    Gone,
    /// The dead letter is a document that could not be read, and still cannot be. Nothing was changed.
    #[error(
        "the dead letter cannot be read: {reason}; redrive it with a program that can, or discard it"
    )]
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
}
