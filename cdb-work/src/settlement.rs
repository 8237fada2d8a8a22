//! The outcome of an entry, and its receipt.

use cdb_model::Timestamp;
use tokio::sync::oneshot;

use super::error::WorkError;

/// The outcome of a written entry.
///
/// ```
/// use cdb_work::{NewWork, Settlement};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let now = work.immediate();
/// let paid = NewWork::inbox("order-7", "paid-1");
/// assert_eq!(now.store(paid.clone()).await?, Settlement::Stored { sequence: 1 });
/// assert_eq!(now.store(paid).await?, Settlement::Duplicate); // delivered twice, handled once
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The message is stored.
    Stored {
        /// The position in the stream, from 1.
        sequence: u64,
    },
    /// A message with this id was stored before. Nothing was written.
    Duplicate,
    /// The message is completed.
    Done,
    /// The stages are stored.
    Progressed,
    /// The failure is stored, and the message is retried.
    Retrying {
        /// The earliest time of the next attempt.
        due_at: Timestamp,
    },
    /// The message failed too often and is set aside; its stream waits for an operator.
    SetAside,
}

/// Resolves when an entry is written.
///
/// ```
/// use cdb_work::{FlushStrategy as _, NewWork, Receipt, Settlement};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let scope = work.scoped();
/// let receipt: Receipt = scope.store(NewWork::inbox("order-7", "paid-1")).await;
/// scope.commit().await?;
/// assert_eq!(receipt.settled().await?, Settlement::Stored { sequence: 1 });
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Receipt(pub(super) oneshot::Receiver<Result<Settlement, WorkError>>);

impl Receipt {
    /// Waits for the outcome of the entry.
    ///
    /// # Errors
    /// The reason why the entry was not written; [`WorkError::Unflushed`] when its strategy or
    /// coordinator was dropped before.
    pub async fn settled(self) -> Result<Settlement, WorkError> {
        self.0.await.unwrap_or(Err(WorkError::Unflushed))
    }
}
