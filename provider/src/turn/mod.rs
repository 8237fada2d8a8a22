//! A turn of an orchestration until its commit: poll, load, lock, hand out, release.
//!
//! Only conditional writes of its document decide the ownership of an instance. Everything read
//! before is a hint; the ETag verifies cached state when it is used.

mod exclusive;
mod fetch;
mod hand_out;
mod load;
pub(crate) mod lock;
mod orphans;
mod poll;
pub(crate) mod prelock;
pub(crate) mod release;
pub(crate) mod renew;

pub(crate) use exclusive::{ExclusiveTurn, exclusively};
pub(crate) use fetch::fetch;
pub(crate) use prelock::{NewMessage, Prelock, Written};
pub(crate) use release::{abandon, release_prelocks, release_running, release_unused, take_over};
