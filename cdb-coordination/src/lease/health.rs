//! How leases fare, for `metrics`: counters under `cdb.lease`, by document type.

use cdb_model::Document;
use metrics::counter;

/// What happened to a lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Somebody holds it who did not before.
    Acquired,
    /// He took it from a holder who let it expire. Counted beside `Acquired`.
    TakenOver,
    /// Its holder has it for longer, by whatever write.
    Renewed,
    /// Its holder gave it back.
    Released,
    /// Its holder was refused: somebody else has it, or an operator broke it.
    Lost,
    /// An operator took it from its holder.
    Broken,
    /// A free document was leased by somebody else a moment before.
    Collision,
    /// A free document does not fit its type and was passed by.
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
