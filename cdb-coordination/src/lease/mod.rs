//! Leases: one holder per document at a time, without stored procedures.
//!
//! A lease is taken by one conditional write of the version that was read as free. Every write of
//! the holder carries the fence of the lease. A holder that was away for too long is refused
//! instead of overwriting the next holder. The clock (the service's time, as the client knows it)
//! decides only how soon a lease changes hands. A writer without a lease is not blocked; its writes
//! show in the ETag.

mod contention;
pub(crate) mod error;
pub(crate) mod explicit;
mod fenced;
mod fenced_write;
mod guard;
mod health;
mod lock;
mod operation;
mod proven_batch;
mod take_next;

pub(crate) use error::LeaseError;
pub(crate) use explicit::Leases;
pub use fenced_write::{Fenced, FencedWrite, Found, execute_fenced};
pub use guard::LeaseGuard;
pub use lock::{Lockable, Renewed, confirm_lock, is_lost_race, lock, renew_lock};
pub use operation::{LeasedOperation, RenewableLease};
pub use proven_batch::{execute_fenced_batch, execute_fenced_once};
