//! Why a store did not do what it was asked.

use cdb_client::Error;
use cdb_model::{CriteriaError, IdError};

/// Why something was not found or not written.
///
/// ```
/// use cdb_coordination::{Store, StoreError};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, order};
/// # shop::with_shop(async |shop| {
///
/// let orders = Store::<_, Order>::new(&shop);
/// let mine = orders.create(order(7)).await?;
/// orders.update(mine.clone()).await?; // by somebody else
/// let refused = orders.update(mine).await.unwrap_err();
/// assert!(refused.is_conflict()); // 409 to whoever asks
/// assert!(matches!(refused, StoreError::Changed { .. }));
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another document has this id, or a unique key of this document.
    #[error("`{id}`, or a unique key of it, is taken; update what is there, or choose another key")]
    Exists {
        /// The id.
        id: String,
    },
    /// Somebody has written the document since it was read.
    #[error("`{id}` was changed since it was read; read it again and decide anew")]
    Changed {
        /// The id.
        id: String,
    },
    /// The document does not exist any more.
    #[error("`{id}` is gone")]
    Gone {
        /// The id.
        id: String,
    },
    /// The criteria name what cannot be searched.
    #[error(transparent)]
    Criteria(#[from] CriteriaError),
    /// A key has no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The service could not be asked, or refused for another reason.
    #[error(transparent)]
    Client(#[from] Error),
}

impl StoreError {
    /// Whether somebody else was faster: the document exists, was changed, or is gone.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Exists { .. } | Self::Changed { .. } | Self::Gone { .. }
        )
    }

    /// Whether the caller asked for what no store can do, so that asking again is of no use.
    pub fn is_bad_request(&self) -> bool {
        matches!(self, Self::Criteria(_) | Self::Id(_))
    }
}
