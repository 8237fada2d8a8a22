//! What can become of a lease that somebody counted on.

use cdb_client::Error;
use cdb_model::{BatchError, Document, IdError, Stored, Timestamp};

/// Why something was not done under a lease. Nothing was written, unless it is a [`Client`](Self::Client) error that
/// says [`is_ambiguous`](Error::is_ambiguous).
///
/// ```
/// use cdb_coordination::Leases;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// let key = OrderKey::new("ann", 1_u64);
/// let mine = Leases::<_, Order>::new(&shop, "packer-1").acquire(&key).await?;
/// let theirs = Leases::<_, Order>::new(&shop, "packer-2").acquire(&key).await;
/// assert!(theirs.unwrap_err().is_held());
/// # drop(mine); Ok(()) }).unwrap();
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The document does not exist.
    #[error("the {document} `{id}` is gone, there is nothing to lease")]
    Gone {
        /// The document type, as it is stored.
        document: &'static str,
        /// Its id.
        id: String,
    },
    /// Somebody else holds the lease.
    #[error("`{id}` is held by `{holder}` until {until}; wait until then, or break the lease")]
    Held {
        /// The document's id.
        id: String,
        /// Who holds it.
        holder: String,
        /// When that ends unless it is renewed, in the service's time.
        until: Timestamp,
    },
    /// The lease is no longer this guard's: it expired and somebody else took it, an operator broke it, or it was given back.
    #[error(
        "the lease of `{id}` with token {token} is over, the document has token {current}; drop what was done under it"
    )]
    Lost {
        /// The document's id.
        id: String,
        /// The fencing token of the guard.
        token: u64,
        /// The fencing token of the document now.
        current: u64,
    },
    /// The lease is still held, and the write was refused all the same: the patch's own condition does not hold, or
    /// somebody without a lease has changed the document since the guard read it.
    #[error(
        "`{id}` is leased, but no longer as the guard read it; call `refresh` and decide again"
    )]
    Changed {
        /// The document's id.
        id: String,
    },
    /// The guard has patched the document and not read it since, so a replacement would undo the patch.
    #[error("`{id}` was patched under this lease; call `refresh` before `replace`")]
    Unread {
        /// The document's id.
        id: String,
    },
    /// The batch was begun by another guard, or before another write of this one.
    #[error("the batch was not begun after the last write of the guard of `{id}`; begin it anew")]
    ForeignBatch {
        /// The document's id.
        id: String,
    },
    /// The document changes faster than it can be leased.
    #[error("`{id}` was changed by others at every attempt to lease it; try again later")]
    Contended {
        /// The document's id.
        id: String,
    },
    /// What is to be written does not fit a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The service could not be asked, or refused for another reason.
    #[error(transparent)]
    Client(#[from] Error),
}

impl LeaseError {
    /// Whether somebody else holds the document.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// Whether a guard has lost its document, to somebody else or because it is gone: what was done under it does not count.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Gone { .. })
    }

    /// Whether the document does not exist.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    pub(super) fn gone<D: Document>(id: &impl ToString) -> Self {
        Self::Gone {
            document: D::SHAPE.discriminator,
            id: id.to_string(),
        }
    }

    pub(super) fn changed<D>(stored: &Stored<D>) -> Self {
        let id = stored.id.to_string();
        Self::Changed { id }
    }
}

impl From<IdError> for LeaseError {
    fn from(error: IdError) -> Self {
        Self::Batch(error.into())
    }
}
