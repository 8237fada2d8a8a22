//! The outcome of an entry, and the receipt that tells it.

use cdb_model::Timestamp;
use tokio::sync::oneshot;

use super::error::WorkError;

/// What was written.
///
/// ```
/// use cdb_coordination::{NewWork, Settlement};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let now = work.immediate();
/// let paid = NewWork::inbox("order-7", "paid-1");
/// assert_eq!(now.store(paid.clone()).await?, Settlement::Stored { sequence: 1 });
/// assert_eq!(now.store(paid).await?, Settlement::Duplicate); // delivered twice, worked on once
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The message is stored, at this place of its stream.
    Stored {
        /// Counted from 1.
        sequence: u64,
    },
    /// A message with this id was stored before, by whomever; nothing was written.
    Duplicate,
    /// The message has ended.
    Done,
    /// Its stages are noted.
    Progressed,
    /// Its failure is noted, and it will be handed out again.
    Retrying {
        /// Not before then.
        due_at: Timestamp,
    },
    /// It failed too often and is set aside; its stream waits for an operator.
    SetAside,
}

/// Tells when an entry is written.
///
/// ```
/// use cdb_coordination::{FlushStrategy as _, NewWork, Receipt, Settlement};
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
    /// Waits until the entry is written, or will not be.
    ///
    /// # Errors
    /// Why it was not; [`WorkError::Unflushed`] when its strategy or coordinator went before it could be.
    pub async fn settled(self) -> Result<Settlement, WorkError> {
        self.0.await.unwrap_or(Err(WorkError::Unflushed))
    }
}
