//! Counters of leases for `metrics`: under `cdb.lease`, by document type.

use cdb_model::Document;
use metrics::counter;

/// What happened to a lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A holder leased a free document.
    Acquired,
    /// The lease was taken from a holder that let it expire. Counted besides `Acquired`.
    TakenOver,
    /// A write of the holder extended the lease.
    Renewed,
    /// The holder released the lease.
    Released,
    /// A write of the holder was refused: another holder has the lease, or an operator broke it.
    Lost,
    /// An operator broke the lease.
    Broken,
    /// Another holder leased a free document first.
    Collision,
    /// A free document does not fit its type and was skipped.
    Unreadable,
}

impl Event {
    pub(super) fn count<D: Document>(self) {
        let name = match self {
            Self::Acquired => "cdb.lease.acquired",
            Self::TakenOver => "cdb.lease.taken_over",
            Self::Renewed => "cdb.lease.renewed",
            Self::Released => "cdb.lease.released",
            Self::Lost => "cdb.lease.lost",
            Self::Broken => "cdb.lease.broken",
            Self::Collision => "cdb.lease.collisions",
            Self::Unreadable => "cdb.lease.unreadable",
        };
        counter!(name, "document" => D::SHAPE.discriminator).increment(1);
    }
}
