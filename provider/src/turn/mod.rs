//! A turn of an orchestration until its commit: poll, load, lock, hand out, release.
//!
//! Only conditional writes of its document decide the ownership of an instance. Everything read
//! before is a hint; the ETag verifies cached state when it is used.

mod abandon;
mod exclusive;
mod fetch;
pub(crate) mod fields;
mod hand_out;
mod load;
mod lock;
mod orphans;
mod poll;
pub(crate) mod prelock;
pub(crate) mod release;
pub(crate) mod renew;

pub(crate) use abandon::abandon;
pub(crate) use exclusive::{ExclusiveTurn, exclusively};
pub(crate) use fetch::fetch;
pub(crate) use prelock::{NewMessage, Prelock, Written};
pub(crate) use release::{release_prelocks, release_running, release_unused, take_over};
