//! A turn of an orchestration: load, lock, hand out, commit.
//!
//! Only conditional writes of its document decide the ownership of an instance. Everything read
//! before is a hint; the ETag verifies cached state when it is used.

mod abandon;
mod arrivals;
mod commit;
mod decide;
mod exclusive;
mod fetch;
mod hand_out;
mod hold;
mod load;
mod loaded;
mod lock;
mod orphans;
mod paused;
mod renew;
mod unlock;

pub(crate) use abandon::abandon;
pub(crate) use commit::{commit, commit_course};
pub(crate) use exclusive::{ExclusiveTurn, Written, exclusively};
pub(crate) use fetch::fetch;
pub(crate) use renew::renew;
