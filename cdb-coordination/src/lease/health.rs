//! Counters of leases for `metrics`: under `cdb.lease`, by document type.

use cdb_model::Document;
use metrics::counter;

/// What happened to a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event(&'static str);

impl Event {
    /// A holder leased a free document.
    pub(super) const ACQUIRED: Self = Self("cdb.lease.acquired");
    /// The lease was taken from a holder that let it expire. Counted besides `ACQUIRED`.
    pub(super) const TAKEN_OVER: Self = Self("cdb.lease.taken_over");
    /// A write of the holder extended the lease.
    pub(super) const RENEWED: Self = Self("cdb.lease.renewed");
    /// The holder released the lease.
    pub(super) const RELEASED: Self = Self("cdb.lease.released");
    /// A write of the holder was refused: another holder has the lease, or an operator broke it.
    pub(super) const LOST: Self = Self("cdb.lease.lost");
    /// An operator broke the lease.
    pub(super) const BROKEN: Self = Self("cdb.lease.broken");
    /// Another holder leased a free document first.
    pub(super) const COLLISION: Self = Self("cdb.lease.collisions");
    /// A free document does not fit its type and was skipped.
    pub(super) const UNREADABLE: Self = Self("cdb.lease.unreadable");

    pub(super) fn count<D: Document>(self) {
        counter!(self.0, "document" => D::SHAPE.discriminator).increment(1);
    }
}
