//! An intent, as the dispatcher carries it.

use cdb_coordination::Dispatcher;
use cdb_model::Stored;

use crate::documents::OutboxIntent;

/// What this process has committed and is to be delivered.
pub(crate) type Outbox = Dispatcher<Intent>;

/// An intent, as the dispatcher carries it.
#[derive(Debug)]
pub(crate) enum Intent {
    /// Just committed by this process.
    Fresh(OutboxIntent),
    /// Found lying about, whoever committed it.
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
