//! The intents of the outbox.

use cdb_coordination::Dispatcher;
use cdb_model::{Batch, BatchError, Document, Stored};

use crate::stored::documents::{Durable, OutboxIntent};

/// The outbox of this process.
pub(crate) type Outbox = Dispatcher<Intent>;

/// An intent to deliver.
#[derive(Debug)]
pub(crate) enum Intent {
    /// An intent that this process has just committed.
    Fresh(OutboxIntent),
    /// An intent that the reconciler has found.
    Found(Stored<OutboxIntent>),
}

impl Intent {
    pub(crate) fn document(&self) -> &OutboxIntent {
        match self {
            Self::Fresh(intent) => intent,
            Self::Found(stored) => &stored.document,
        }
    }

    /// Adds the deletion of the intent. A found one is deleted by its stored id, which differs in
    /// containers of `duroxide-cdb`.
    pub(crate) fn add_delete(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        match self {
            Self::Fresh(intent) => batch.delete(&intent.key()),
            Self::Found(stored) => batch.delete_stored(stored),
        }
        .map(drop)
    }
}
