//! The intents of the outbox.

use cdb_coordination::Dispatcher;
use cdb_model::Stored;

use crate::documents::OutboxIntent;

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
    pub(super) fn document(&self) -> &OutboxIntent {
        match self {
            Self::Fresh(intent) => intent,
            Self::Found(stored) => &stored.document,
        }
    }
}
