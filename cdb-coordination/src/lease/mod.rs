//! Leases: a document in one pair of hands at a time, without stored procedures.
//!
//! Taking a lease is one conditional write of the document itself, of exactly the version that was seen free; every write of
//! the holder carries the fence of the lease, so that a holder who was away for too long finds his writes refused instead of
//! undoing those of the next. Clocks only decide how soon a lease changes hands (the service's time, as the client knows
//! it), never whether two hold it. A lease keeps away others who lease; who writes without one is seen by his ETag.

mod contention;
mod error;
mod explicit;
mod fenced;
mod fenced_write;
mod guard;
mod health;
mod lock;
mod proven_batch;
mod take_next;

pub use error::LeaseError;
pub use explicit::Leases;
pub use fenced::LeasedBatch;
pub use fenced_write::{Fenced, FencedWrite, Found, execute_fenced};
pub use guard::LeaseGuard;
pub(crate) use lock::is_lost_race;
pub use lock::{Kept, Lockable, keep, lock, settle};
pub(crate) use proven_batch::execute_once;
pub use proven_batch::{Proof, execute_proven};
